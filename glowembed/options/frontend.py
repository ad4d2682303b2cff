"""What a front end computes from sound: the schema of the file of --frontend. In: YAML, or the name of a kind. Out: a Frontend.

Defaults are those of the keyword benchmark of MLPerf Tiny: frames of 30 ms every 20 ms at 16 kHz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from math import gcd
from pathlib import Path
from typing import Any, Literal, get_args

from glowembed.errors import UsageError
from glowembed.files import documents
from glowembed.records import dataclass

Kind = Literal["mfcc", "logmel", "spectrogram", "raw"]
Shape = Literal["hann", "hamming", "rectangular"]
Spectrum = Literal["magnitude", "power"]
Mel = Literal["htk", "slaney"]
Log = Literal["ln", "log10", "log2", "decibel", "none"]
Cosines = Literal["plain", "orthonormal"]

POINTS = tuple(2**bits for bits in range(5, 13))
BANDS_MAX = 512

OF_BANDS = ("bands", "low_hz", "high_hz", "mel", "triangles", "area")
OF_COSINES = ("coefficients", "cosines")
OF_SOUND = ("kind", "sample_rate", "input")
UNUSED: Mapping[str, tuple[str, ...]] = {
    "mfcc": (),
    "logmel": OF_COSINES,
    "spectrogram": (*OF_BANDS, *OF_COSINES),
}
"""The keys without a meaning in each kind; raw has those of OF_SOUND only."""


@dataclass(frozen=True)
class Frontend:
    """A file of --frontend.

    window, hop, fft: samples of a frame, samples from one frame to the next, points of the transform. area: triangles of area 1 instead
    of height 1. gain: factor of the spectrum, and floor: what is added to it, before the logarithm. scale, offset: applied to each
    feature at last, which `low` and `high` then limit. input: the input of the model that takes the features, if it has several.
    """

    kind: Kind
    sample_rate: int = 16000
    window: int = 480
    hop: int = 320
    fft: int = 512
    shape: Shape = "hann"
    periodic: bool = True
    spectrum: Spectrum = "magnitude"
    bands: int = 40
    low_hz: float = 20.0
    high_hz: float = 4000.0
    mel: Mel = "htk"
    triangles: Literal["mel", "hz"] = "mel"
    area: bool = False
    gain: float = 1.0
    log: Log = "ln"
    floor: float = 1e-6
    coefficients: int = 10
    cosines: Cosines = "plain"
    scale: float = 1.0
    offset: float = 0.0
    low: float | None = None
    high: float | None = None
    input: str = ""

    @property
    def step(self) -> int:
        """The samples of a row of the input: the most that divide frame and hop."""
        return gcd(self.window, self.hop)

    @property
    def features(self) -> int:
        """The numbers that a frame becomes."""
        return {"mfcc": self.coefficients, "logmel": self.bands}.get(self.kind, self.fft // 2 + 1)

    def rows(self, frames: int) -> int:
        """The rows of the input for so many frames."""
        return ((frames - 1) * self.hop + self.window) // self.step

    def json(self) -> dict[str, Any]:
        """The document of a file that says the same; keys with the default are left out."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    def attrs(self) -> dict[str, Any]:
        """The attributes of the node that computes the features."""
        return {name: value for name, value in asdict(self).items() if name not in ("low", "high", "input")}


def _number(**limits: Any) -> dict[str, Any]:
    return {"type": "number", **limits}


def _whole(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _one_of(words: Any) -> dict[str, Any]:
    return {"enum": list(get_args(words))}


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["kind"],
    "additionalProperties": False,
    "properties": {
        "kind": _one_of(Kind),
        "sample_rate": _whole(1000, 192_000),
        "window": _whole(16, POINTS[-1]),
        "hop": _whole(1, 1 << 16),
        "fft": {"enum": list(POINTS)},
        "shape": _one_of(Shape),
        "periodic": {"type": "boolean"},
        "spectrum": _one_of(Spectrum),
        "bands": _whole(1, BANDS_MAX),
        "low_hz": _number(minimum=0),
        "high_hz": _number(exclusiveMinimum=0),
        "mel": _one_of(Mel),
        "triangles": {"enum": ["mel", "hz"]},
        "area": {"type": "boolean"},
        "gain": _number(exclusiveMinimum=1e-12, maximum=1e9),
        "log": _one_of(Log),
        "floor": _number(exclusiveMinimum=0, maximum=1e6),
        "coefficients": _whole(1, BANDS_MAX),
        "cosines": _one_of(Cosines),
        "scale": _number(minimum=-1e9, maximum=1e9),
        "offset": _number(minimum=-1e9, maximum=1e9),
        "low": _number(),
        "high": _number(),
        "input": {"type": "string", "minLength": 1},
    },
}


def named_frontend(text: str | None) -> Frontend | None:
    """The front end given by --frontend: the name of a kind, or a file."""
    if text is None:
        return None
    if text in get_args(Kind):
        return from_document({"kind": text}, f"--frontend {text}")
    if not Path(text).exists():
        kinds = ", ".join(get_args(Kind))
        raise UsageError(f"--frontend {text!r}: is no file, and no kind of front end: {kinds}")
    return from_document(documents.read_yaml(Path(text)), text)


def from_document(document: Any, where: str) -> Frontend:
    """The front end of a document. Raises UsageError, which begins with `where`, for one that cannot be computed."""
    documents.check(document, SCHEMA, where)
    kind = document["kind"]
    used = OF_SOUND if kind == "raw" else SCHEMA["properties"].keys() - set(UNUSED[kind])
    unused = [key for key in document if key not in used]
    if unused:
        raise UsageError(f"{where}: {', '.join(unused)}: means nothing to {kind}; leave it out")
    made = Frontend(**document)
    problem = "" if kind == "raw" else _problem(made)
    if problem:
        raise UsageError(f"{where}: {problem}")
    return made


def _problem(made: Frontend) -> str:
    """What cannot be computed, and what to do."""
    if made.window > made.fft:
        return f"a window of {made.window} samples does not fit an fft of {made.fft} points: take a larger fft"
    if made.scale == 0:
        return "a scale of 0 leaves nothing of the features"
    if made.log == "none" and made.kind == "mfcc":
        return "the cosines of an mfcc are those of logarithms: give a log"
    if made.low is not None and made.high is not None and made.low >= made.high:
        return f"low {made.low:g} is not below high {made.high:g}"
    return "" if made.kind == "spectrogram" else _problem_of_bands(made)


def _problem_of_bands(made: Frontend) -> str:
    if not made.low_hz < made.high_hz <= made.sample_rate / 2:
        return (
            f"bands from {made.low_hz:g} to {made.high_hz:g} Hz: they must rise, and end at most at half of the sample rate,"
            f" {made.sample_rate / 2:g} Hz"
        )
    if made.kind == "mfcc" and not made.coefficients <= made.bands >= 3:
        return f"{made.coefficients} coefficients of {made.bands} bands: at least 3 bands are needed, and as many as coefficients"
    return ""


def written_frontend(frontend: Frontend | None) -> Any:
    """The front end as the manifest records it."""
    return None if frontend is None else frontend.json()
