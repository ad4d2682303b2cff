"""Notes: facts that the user should know although nothing failed, each with a stable code word.

A `warning` says that a result may not be what it seems; a `note` says what was done or assumed. Commands print them on
stderr, and they go into the manifest, the profile and the result of `validate --json`. docs/notes.md lists the codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from glowembed.records import dataclass

Level = Literal["note", "warning"]

MEANINGS: Mapping[str, tuple[Level, str]] = {
    "branch": (
        "note",
        "An input chooses between two branches of the network in each run, so that both are compiled, in float32; `--constant` decides for one.",
    ),
    "batch": ("note", "The model leaves the batch of an input open, and the bundle takes one sample."),
    "state": (
        "note",
        "The bundle keeps a pair of an output and an input as a state from run to run (`--state none` prevents this), or the reason why a pair with such names is not a state.",
    ),
    "stream": (
        "note",
        "What a hop of a stream (`--stream`) computes and keeps, and from which layer on everything is computed anew.",
    ),
    "stream-recomputed": (
        "warning",
        "A hop of a stream (`--stream`) computes as many products as the whole window; the note names the layers that end the reuse.",
    ),
    "slices": (
        "note",
        "Into how many slices a run is cut (`--slice`), how long the longest one is, and the cycles that this adds, all estimated.",
    ),
    "prefetch": (
        "note",
        "How many bytes of weights are copied to the window (`--prefetch`), and the estimated cycles with the copies made by DMA and by memcpy, with all weights in fast memory, and with all of them read in place.",
    ),
    "weights-in-place": (
        "note",
        "The window (`--prefetch`) has no room for the weights of some layers, which are read from slow memory.",
    ),
    "weights-bound": (
        "warning",
        "Reading the weights from their slow memory takes longer than the computation, so that no copies ahead can hide it.",
    ),
    "random-data": (
        "warning",
        "Samples are random numbers (`--random`): ranges, accuracy and the comparison with float say nothing about real data.",
    ),
    "data": ("note", "How the samples were read: which of them were taken, and how they were transposed."),
    "integers-as-numbers": (
        "note",
        "int8 or uint8 samples are taken as real numbers; give `x_scale` and `x_zero` if they are quantized, or pixels of a network for 0..1.",
    ),
    "few-samples": ("warning", "Calibration saw fewer than 8 samples: ranges of activations are not reliable."),
    "weights-rounded-alone": (
        "note",
        "Weights of four bits are rounded one by one, because a stored profile (`--profile`) has no samples; `--data` gives more accurate ones.",
    ),
    "constant-samples": (
        "warning",
        "The calibration samples hold the same number everywhere, often zero, so they give no range.",
    ),
    "calibration-is-test": (
        "warning",
        "The calibration samples are the test samples, so the measured accuracy is too optimistic.",
    ),
    "input-clips": (
        "warning",
        "More than 1 % of an input's numbers lie outside the range of its type and are clipped.",
    ),
    "output-not-finite": (
        "warning",
        "An output is NaN or infinite for a calibration sample; the nodes that compute it stay in float32, because no range holds such numbers.",
    ),
    "range-differs": (
        "warning",
        "The samples differ in scale or mean from those of the calibration, as if they were preprocessed differently.",
    ),
    "images-differ": ("warning", "Images are read with options that differ from those of the calibration."),
    "image-options-unused": (
        "note",
        "`--image-scale`, `--image-mean` or `--image-std` were given for data that is not images.",
    ),
    "coarse-softmax": (
        "warning",
        "An output is a softmax over more than 256 classes in int8: a probability below half a step of 1/256 becomes 0.",
    ),
    "model": (
        "note",
        "A part of the model file is interpreted in a way that may surprise, such as a state that the caller must keep.",
    ),
    "float-reference": (
        "note",
        "Which program computed the outputs of the float model, if it was not onnxruntime on the file itself.",
    ),
    "board-too-small": (
        "warning",
        "The bundle does not fit the board of `compile --board`; the note says what is missing, and with which options it would fit.",
    ),
    "low-sqnr": ("warning", "An output has a signal-to-noise ratio below 10 dB against the float model."),
    "accuracy-drop": ("warning", "The bundle is more than 5 points less accurate than the float model."),
    "labels-out-of-range": (
        "warning",
        "Some labels are not classes of the output, for example -1; these samples count as wrong.",
    ),
    "profile-matched": ("note", "A profile of another export was applied; the note lists which values correspond."),
    "simpler-plan": (
        "note",
        "The network is too large for the best plan; the note says which simpler plan was made, and why.",
    ),
    "no-solver": (
        "note",
        "OR-tools is not installed, so tensors were placed without the solver; the arena may be larger than it has to be.",
    ),
    "no-emulated-board": (
        "warning",
        "`try` found no emulated board for the network on this computer; the note says why.",
    ),
    "estimate": (
        "note",
        "A figure of `inspect` was made without samples, or could not be computed; the note says why.",
    ),
}
"""The level and the meaning of each code word. A code never changes its meaning."""


@dataclass(frozen=True)
class Note:
    """One fact. `code` is a key of MEANINGS."""

    code: str
    text: str

    @property
    def level(self) -> Level:
        return MEANINGS[self.code][0]

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        return {"level": self.level, "code": self.code, "text": self.text}

    @classmethod
    def read(cls, entry: Any) -> Note:
        """Read a note from a file, `{code: text}`; anything else becomes a note with the code "data"."""
        if isinstance(entry, dict) and len(entry) == 1:
            code, text = next(iter(entry.items()))
            if code in MEANINGS:
                return cls(code, str(text))
        return cls("data", str(entry))
