"""Types for the readers of datasets: the inputs of a model as the readers see them, and the raw contents of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import UNSIGNED, Array, QType, Shape
from glowembed.graph.notes import Note
from glowembed.records import dataclass

IMAGE_SCALES: Mapping[str, tuple[float, float]] = {
    "0..1": (1 / 255, 0.0),
    "-1..1": (1 / 127.5, -1.0),
    "0..255": (1.0, 0.0),
}


@dataclass(frozen=True)
class Integers:
    """The type in which the model file stores an input or output: its dtype there (int8, uint8, int16 or uint16), and its QType
    as int8 or int16.
    """

    dtype: str
    qtype: QType

    def to_model(self, real: Array) -> Array:
        """Convert real numbers to the integers of the model file."""
        stored = self.qtype.quantize(real)
        return (
            stored
            if self.dtype not in UNSIGNED
            else (stored.astype(np.int32) + UNSIGNED[self.dtype]).astype(self.dtype)
        )

    def from_model(self, array: Array) -> Array:
        """Convert integers of the model file to real numbers."""
        return self.qtype.dequantize(array.astype(np.int32) - UNSIGNED.get(self.dtype, 0))


@dataclass(frozen=True)
class InputSpec:
    """An input of the model as in the ONNX file, including its batch axis of 1. missing: whether elements may be NaN."""

    name: str
    shape: Shape
    dtype: str = "float32"
    integers: Integers | None = None
    missing: bool = False

    @property
    def sample_shape(self) -> Shape:
        """The shape of one sample, without the batch axis."""
        return self.shape[1:] if self.shape and self.shape[0] == 1 else self.shape


@dataclass(frozen=True)
class ImageOptions:
    """How pixels become numbers: they are scaled to `scale`, then (x - mean) / std; mean and std are one number or one
    per channel.
    """

    scale: str = "0..1"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def json(self) -> dict[str, Any]:
        return {"scale": self.scale, "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def read(cls, entry: Any, where: str) -> ImageOptions | None:
        """The options that a profile or manifest recorded; None if no images were read."""
        if entry is None:
            return None
        try:
            mean, std = (tuple(float(x) for x in entry[key]) for key in ("mean", "std"))
            options = cls(str(entry["scale"]), mean, std)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{where}: 'images' must hold 'scale', 'mean' and 'std', found {entry!r:.80}") from error
        if options.scale not in IMAGE_SCALES:
            raise unknown_name(f"image scale in {where}:", options.scale, IMAGE_SCALES)
        return options


@dataclass(frozen=True, eq=False)
class Raw:
    """The contents of a file, by input name, before they are matched to the model."""

    arrays: Mapping[str, Array]
    labels: Array | None = None
    notes: tuple[Note, ...] = ()
    images: ImageOptions | None = None


def only(path: Path, inputs: Sequence[InputSpec]) -> InputSpec:
    """The only input, for data without names. Raises UsageError if there are several."""
    if len(inputs) == 1:
        return inputs[0]
    names = ", ".join(spec.name for spec in inputs)
    raise UsageError(
        f"{path}: holds one array, but the model has {len(inputs)} inputs ({names});"
        f" use an .npz with calib_<input> and test_<input>, or <input>, for each"
    )
