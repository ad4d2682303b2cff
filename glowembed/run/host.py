"""Runs a bundle on this computer: compiles it with `cc` into a shared library and calls it on numpy arrays.

In: a bundle made for x86-64. Out: a HostModel. The arena lies between guard bytes, which are checked after every run.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import GlowembedError, ToolError, UsageError
from glowembed.files.source import read_bytes
from glowembed.graph import registry
from glowembed.graph.ir import Array
from glowembed.graph.target import target_of
from glowembed.image.glue import GUARD_BYTES, Manifest, host_c, in_window, read_manifest, weights_c, window_size
from glowembed.nest.dtypes import NIBBLES, numpy_type
from glowembed.run import objects

GUARD = 256
GUARD_BYTE = 0xA5


class HostModel:
    """A compiled bundle in this process. Call it with float arrays by input name, or with one array.

    `run_stored` works on the stored bytes instead. It is not thread-safe, because there is one arena.
    """

    def __init__(self, bundle: Path, built: Path | None = None) -> None:
        """`built`: the shared library that build.py made of the bundle for the board host; without it, a library is built, or
        taken from the cache of this user if the same C was compiled before.
        """
        self.manifest: Manifest = in_window(read_manifest(bundle))
        with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
            # A copy, as the loader would take a file that it knows for what it has loaded before.
            library = shutil.copy(built or _library(bundle, self.manifest), folder)
            self._library = ctypes.CDLL(str(library))
        arena = self.manifest["arena"]
        self._run = self._library.ge_host_run
        self._run.argtypes, self._run.restype = [ctypes.c_void_p], ctypes.c_int32
        self._layers = self._library.ge_host_run_layers
        self._layers.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
        self._layers.restype = ctypes.c_int32
        align, self._size = int(arena["align"]), int(arena["size"])
        window = window_size(self.manifest)
        self._memory = np.full(window + 2 * GUARD + align, GUARD_BYTE, dtype=np.uint8)
        self._start = GUARD + -(self._memory.ctypes.data + GUARD) % align
        self._arena = self._memory[self._start : self._start + window]
        self.reset()

    def __call__(self, *arrays: Array, **named: Array) -> dict[str, Array]:
        """The outputs by name for one sample, in real numbers; inputs are given in the order of the model, or by name.

        States are kept from call to call; `reset` begins a new sequence.
        """
        free = [t for t in self.manifest["inputs"] if t.get("handed") != "state"]
        feeds = {t["name"]: a for t, a in zip(free, arrays, strict=False)} | named
        stored = {}
        for tensor in [t for t in self.manifest["inputs"] if t in free or t["name"] in feeds]:
            if tensor["name"] not in feeds:
                raise UsageError(f"input {tensor['name']!r} is missing; the model has {_names(free)}")
            stored[tensor["name"]] = _to_stored(tensor, feeds[tensor["name"]])
        outputs = self.run_stored(stored)
        return {t["name"]: _to_real(t, outputs[t["name"]]) for t in self.manifest["outputs"]}

    def run_stored(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The stored outputs by name for stored inputs (int8, or float32 with float inputs and outputs) of the bundle's
        shapes.
        """
        self.write(inputs)
        self._check(self._run(self._arena.ctypes.data))
        return {t["name"]: self.read(t) for t in self.manifest["outputs"]}

    def reset(self) -> None:
        """Set the states, if the bundle has any, to what they are before the first run of a sequence."""
        if self.manifest.get("state"):
            reset = getattr(self._library, f"{self.manifest['name']}_reset")
            reset.argtypes, reset.restype = [ctypes.c_void_p], ctypes.c_int32
            self._check(reset(self._arena.ctypes.data))

    def use_level(self, most: str) -> str:
        """Use the best instruction set of this computer that is not above `most` from now on, and return its name.

        The names are those of kernels/x86/levels.py. Raises UsageError for a bundle that was compiled without `most`.
        """
        levels = self.manifest.get("levels", [])
        if most not in levels:
            raise UsageError(f"the bundle has no level {most!r}; it has {', '.join(levels) or 'none'}")
        use = getattr(self._library, f"{self.manifest['name']}_use_level")
        use.argtypes, use.restype = [ctypes.c_int32], ctypes.c_int32
        numbers = {level.word: i for found in registry.levels().values() for i, level in enumerate(found)}
        return {number: word for word, number in numbers.items()}[use(numbers[most])]

    def write(self, inputs: Mapping[str, Array]) -> None:
        """Put stored inputs into the arena; states that are not given stay as they are."""
        for tensor in self.manifest["inputs"]:
            if tensor.get("handed") == "state" and tensor["name"] not in inputs:
                continue
            array = np.ascontiguousarray(inputs[tensor["name"]]).astype(numpy_type(tensor["dtype"]))
            if tensor["dtype"] in NIBBLES:
                array = array.astype(NIBBLES[tensor["dtype"]][0])
            if array.size != int(np.prod(tensor["shape"])):
                raise UsageError(
                    f"input {tensor['name']!r} has shape {array.shape}, the bundle needs {tensor['shape']}"
                )
            start = tensor["offset"]
            self._arena[start : start + tensor["bytes"]] = array.reshape(-1).view(np.uint8)

    def run_layer(self, layer: int) -> None:
        """Compute one layer on the contents of the arena."""
        self._check(self._layers(self._arena.ctypes.data, layer, 1))

    def read(self, tensor: Mapping[str, Any]) -> Array:
        """A copy of a tensor of the manifest from the arena as it is now."""
        raw = self._arena[tensor["offset"] : tensor["offset"] + tensor["bytes"]].tobytes()
        return np.frombuffer(raw, dtype=numpy_type(tensor["dtype"])).reshape(tensor["shape"])

    def _check(self, code: int) -> None:
        if code != 0:
            raise GlowembedError(f"the bundle returned error {code}; see the header of {self.manifest['name']}")
        before, after = self._memory[: self._start], self._memory[self._start + len(self._arena) :]
        behind = self._arena[self._size : self._size + GUARD_BYTES]
        if any(np.any(guard != GUARD_BYTE) for guard in (before, behind[: len(self._arena) - self._size], after)):
            raise GlowembedError(f"{self.manifest['name']} wrote outside its arena: this is a bug of glowembed")


def load(bundle: Path | str) -> HostModel:
    """Load the bundle, compiled for this computer. Raises UsageError for another target, ToolError without `cc`."""
    return HostModel(Path(bundle))


def _library(bundle: Path, manifest: Manifest) -> Path:
    """The shared library of a bundle, which is kept by the hash of its C, the options and the version of the compiler."""
    target = target_of(manifest)
    if target.compiler != "cc":
        raise UsageError(f"{bundle} was compiled for {target.name}; compile it with --target x86-64 to run it here")
    compiler = shutil.which(target.compiler)
    if compiler is None:
        raise ToolError("no C compiler 'cc' on this computer: install the Debian package gcc", "gcc libc6-dev")
    ours = {"ge_host.c": host_c(manifest)}
    if (weights := weights_c(manifest, bundle)) is not None:
        ours["ge_file_weights.c"] = weights
    flags = [*target.cflags, "-I", ".", *manifest["sources"], *ours, *target.ldflags]
    files = {name: text.encode("ascii") for name, text in ours.items()}
    files |= {path.name: read_bytes(path) for path in sorted(bundle.glob("*.[ch]"))}
    hashes = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in files.items()]

    def compiled(folder: Path) -> Path:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        command = [compiler, *flags, "-o", "bundle.so"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolError(f"cc failed on the bundle {bundle}:\n{done.stderr.strip()[-2000:]}")
        return folder / "bundle.so"

    return objects.built([objects.version(compiler), *flags, *hashes], ".so", compiled)


def _names(tensors: list[Mapping[str, Any]]) -> str:
    return ", ".join(repr(t["name"]) for t in tensors)


def _to_stored(tensor: Mapping[str, Any], real: Array) -> Array:
    """Convert real numbers in the layout of the model to the bundle's type and layout."""
    from glowembed.graph.ir import QType

    array = np.asarray(real)
    layout = tensor["layout"]
    if layout is not None:
        array = np.transpose(array, layout)
    if tensor["scale"] is None:
        return array.astype(np.float32)
    return QType(tensor["dtype"], (tensor["scale"],), (tensor["zero_point"],)).quantize(array)


def _to_real(tensor: Mapping[str, Any], stored: Array) -> Array:
    """Convert stored numbers to real ones, with the axes in the order of the model."""
    array = (
        stored
        if tensor["scale"] is None
        else (stored.astype(np.float32) - tensor["zero_point"]) * np.float32(tensor["scale"])
    )
    return array if tensor["layout"] is None else np.transpose(array, np.argsort(tensor["layout"]))
