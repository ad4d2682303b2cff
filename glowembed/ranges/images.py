"""Reads images as samples. In: image files, and the input that they are for. Out: one array of numbers in the input's
layout.

Images are converted to the colours of the input, grey or RGB, resized to its size, and scaled as the options say.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.files.source import read_bytes
from glowembed.graph.ir import Array
from glowembed.graph.notes import Note
from glowembed.ranges.spec import IMAGE_SCALES, ImageOptions, InputSpec

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def stacked(path: Path, files: Sequence[Path], options: ImageOptions, spec: InputSpec) -> tuple[Array, Note]:
    """The images as [n, ...] in the input's layout, and a note about how they were read. Raises UsageError, which names
    the file, or `path` if the input cannot be an image.
    """
    channels_last, (height, width, channels) = _shape(path, spec)
    pixels = np.stack([_pixels(file, width, height, channels) for file in files])
    array = _normalized(options, pixels, channels)
    kind = "grey" if channels == 1 else "RGB"
    note = Note("data", f"{len(files)} images as {width}x{height}, {kind}, {options.scale}")
    return array if channels_last else array.transpose(0, 3, 1, 2), note


def _shape(path: Path, spec: InputSpec) -> tuple[bool, tuple[int, int, int]]:
    """Whether the model is channels-last, and (height, width, channels)."""
    shape = spec.sample_shape
    if len(shape) == 3 and shape[0] in (1, 3):
        return False, (shape[1], shape[2], shape[0])
    if len(shape) == 3 and shape[2] in (1, 3):
        return True, (shape[0], shape[1], shape[2])
    raise UsageError(
        f"{path}: is a folder of images, but the input {spec.name!r} has the shape {spec.shape}, not an image"
    )


def _pixels(path: Path, width: int, height: int, channels: int) -> Array:
    from PIL import Image, UnidentifiedImageError  # here, because it takes long to load and few samples are images

    try:
        with Image.open(io.BytesIO(read_bytes(path))) as image:
            sized = image.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        known = isinstance(error, UnidentifiedImageError)  # which names an object of Python
        what = "its format is not known, or it is damaged" if known else error
        raise UsageError(f"{path}: is not a readable image: {what}") from error
    return np.asarray(sized, np.uint8).reshape(height, width, channels)


def _normalized(options: ImageOptions, pixels: Array, channels: int) -> Array:
    if options.scale not in IMAGE_SCALES:
        raise unknown_name("image scale", options.scale, IMAGE_SCALES)
    for name, numbers in (("mean", options.mean), ("std", options.std)):
        if len(numbers) not in (1, channels):
            raise UsageError(f"image {name} has {len(numbers)} numbers; expected 1 or {channels}, one per channel")
    if not all(s > 0 for s in options.std):
        raise UsageError(f"image std must be above 0, found {options.std}")
    factor, offset = IMAGE_SCALES[options.scale]
    scaled = pixels * np.float64(factor) + offset
    result: Array = ((scaled - np.asarray(options.mean)) / np.asarray(options.std)).astype(np.float32)
    return result
