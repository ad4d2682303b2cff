"""Folders of files as samples: .npy and .wav. In: a folder. Out: its files in order, their labels, and their contents
as one array.

Each file is one sample. If the files lie in subfolders, these are the classes, in the order of their names.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from glowembed.errors import UsageError
from glowembed.files.arrays import read_npy
from glowembed.files.source import read_bytes
from glowembed.graph.ir import Array
from glowembed.graph.notes import Note
from glowembed.ranges.spec import InputSpec


def samples(folder: Path, suffixes: Sequence[str]) -> tuple[list[Path], Array | None]:
    """The files of a folder with these suffixes and no labels; if it has none, the files of its subfolders, labelled by
    the subfolders' order.
    """
    files = _inside(folder, suffixes)
    if files:
        return files, None
    classes = [(f, _inside(f, suffixes)) for f in sorted(p for p in folder.iterdir() if p.is_dir())]
    classes = [(f, inside) for f, inside in classes if inside]
    labels = [label for label, (_, inside) in enumerate(classes) for _ in inside]
    return [file for _, inside in classes for file in inside], np.asarray(labels, np.int64)


def _inside(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())


def named_arrays(folder: Path) -> dict[str, Path]:
    """The .npy files of a folder by their names without the suffix."""
    return {file.stem: file for file in _inside(folder, (".npy",))}


def stacked(files: Sequence[Path], spec: InputSpec) -> Array:
    """The samples as one array. Raises UsageError if they differ in kind or shape."""
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1:
        raise UsageError(f"{files[0].parent}: holds {' and '.join(kinds)} files; samples must be of one kind")
    read = [_sound(file, spec) if kinds[0] == ".wav" else read_npy(file) for file in files]
    first = read[0]
    for file, array in zip(files, read, strict=True):
        if (array.shape, array.dtype) != (first.shape, first.dtype):
            raise UsageError(
                f"{file}: holds {array.dtype} of shape {array.shape}, but {files[0].name} holds {first.dtype} of shape"
                f" {first.shape}; all samples of a folder must be alike"
            )
    whole = first.shape == spec.shape and first.shape != spec.sample_shape
    return np.concatenate(read) if whole else np.stack(read)


def told(files: Sequence[Path]) -> Note:
    """A note about the files that were read."""
    kind = files[0].suffix.lower()
    as_what = " as mono, -1..1" if kind == ".wav" else ""
    return Note("data", f"{len(files)} {kind} files, one sample each{as_what}")


def _sound(path: Path, spec: InputSpec) -> Array:
    """The sound in the shape of a sample: the mean of its channels, in -1..1."""
    try:
        with wave.open(io.BytesIO(read_bytes(path))) as sound:
            width, channels, rate = sound.getsampwidth(), sound.getnchannels(), sound.getframerate()
            data = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise UsageError(
            f"{path}: cannot be read as a .wav file: {str(error) or 'it is cut short'}; integers (PCM) of 8 to 32 bits are read"
        ) from error
    if len(data) % (width * channels):
        raise UsageError(f"{path}: is cut short within a sample of the sound")
    numbers: Array = _integers(data, width).reshape(-1, channels).mean(axis=1)
    wanted = prod(spec.sample_shape)
    if len(numbers) != wanted:
        raise UsageError(
            f"{path}: has {len(numbers)} numbers at {rate} Hz, but the input {spec.name!r} of shape {list(spec.shape)} takes"
            f" {wanted}: cut the sounds to that length, or write what the model takes (spectra, for example) to .npy files"
        )
    sized: Array = numbers.astype(np.float32).reshape(spec.sample_shape)
    return sized


def _integers(data: bytes, width: int) -> Array:
    """The numbers of a sound as fractions of full scale. Bytes are unsigned, wider integers are signed."""
    raw: Array = np.frombuffer(data, np.uint8)
    padded: Array = np.zeros((len(raw) // width, 4), np.uint8)
    padded[:, 4 - width :] = raw.reshape(-1, width) ^ (0x80 if width == 1 else 0)
    numbers: Array = np.frombuffer(padded.tobytes(), "<i4") / 2.0**31
    return numbers
