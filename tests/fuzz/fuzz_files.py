"""Mutated files of every other format that glowembed reads: profiles, bundles, precision files, data, targets, boards, farms.

    python tests/fuzz/fuzz_files.py --seconds 3600 --cases 50000 --seed 7

The files are those of one small network. JSON, YAML and TOML are changed as documents (a field is missing, of another
type, absurd, moved) and as text; archives entry by entry, headers included. What is read in spite of that is used as the
commands use it: a profile and a precision file are compiled with, a bundle is run by its reference, data is fitted to the
inputs. A finding is whatever is no GlowembedError.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import random
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

import numpy as np
import onnx
import tomlkit
import yaml
from runner import Finding, run
from small_models import model, node, weights
from tflite_cases import layer

from glowembed import resources
from glowembed.graph.target import read_board, read_target
from glowembed.judge import farm
from glowembed.judge.validation import stored_inputs
from glowembed.pipeline import CompileOptions, compile_model, import_model, load_bundle, profile_model
from glowembed.quantize.precision import template
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.profile import Profile, to_yaml
from glowembed.reference import run_int

SHAPE = (1, 2, 6, 6)
OPTIONS = CompileOptions("cortex-m4", name="net")
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e38, 1e300, "", "x", "x" * 3000, "../../x", "a\0b",
    "\x1b[2J", "int8", "float32", "1e5", "nan", ".inf", "0x", "~", [], {}, [[]], [None], [0, 0, 0, 0, 0], {"x": 1}, ["x"] * 200,
)  # fmt: skip
TOKENS = (b"\0", b"\xff\xfe", b"[" * 500, b"{", b"}", b"]", b":", b"&a", b"*a", b"!!", b"- ", b"\n", b"'", b'"', b"%s", b"1e999",
          b"NaN", b"-", b"\x93NUMPY", b"PK\x03\x04", b"0" * 400, b"(" * 300, b"\xe2\x80\xae")  # fmt: skip


def bytes_of(chance: random.Random, data: bytes) -> bytes:
    """Some bytes changed, moved, doubled, removed, or a token put in."""
    for _ in range(chance.choice((1, 1, 1, 2, 5, 20))):
        at = chance.randrange(len(data) + 1)
        size = chance.choice((1, 1, 2, 4, 16, 100, 1000))
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + chance.choice(TOKENS) + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + size :]
        elif kind == 3:
            data = data[:at] + data[at : at + size] * 2 + data[at + size :]
        else:
            data = data[:at] + chance.randbytes(min(size, len(data) - at)) + data[at + size :]
    return data


def words_of(chance: random.Random, data: bytes) -> bytes:
    """Some words of a flatbuffer changed, which are offsets, lengths or numbers; perhaps the end is missing."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = 4 * chance.randrange(len(data) // 4)
        small, large = chance.randrange(64), chance.randrange(2 * len(data))
        word = chance.choice((0, 1, small, large, len(data), 2**31 - 1, 2**31, 2**32 - 1))
        changed[at : at + 4] = word.to_bytes(4, "little")
    return bytes(changed[: chance.choice((len(data), len(data), chance.randrange(len(data))))])


def document(chance: random.Random, whole: Any) -> Any:
    """Some fields missing, of another kind, or taken from elsewhere in the document."""
    whole = copy.deepcopy(whole)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        holders = [h for h in _holders(whole) if h]
        if not holders:
            break
        holder = chance.choice(holders)
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
        kind = chance.random()
        if kind < 0.2:
            del holder[key]
        elif kind < 0.4:
            other = chance.choice(holders)
            holder[key] = copy.deepcopy(chance.choice(list(other.values()) if isinstance(other, dict) else other))
        elif kind < 0.5 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            factor, more = chance.choice((-1, 2, 0.5, 1000, 10**12)), chance.choice((0, 1))
            holder[key] = (holder[key] * factor if abs(holder[key]) < 1e300 else -holder[key]) + more
        elif kind < 0.55 and isinstance(holder, dict):
            holder[chance.choice(("x", "", "dtype", "kind", "\0"))] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(chance.choice(WRONG))
    return whole


def _holders(part: Any) -> list[Any]:
    inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else []
    return ([part] if isinstance(part, dict | list) else []) + [h for value in inner for h in _holders(value)]


def archive(chance: random.Random, data: bytes) -> bytes:
    """An .npz with an entry changed, renamed, missing or doubled; its sums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        entries = [(name, old.read(name)) for name in old.namelist()]
    for _ in range(chance.choice((1, 1, 2))):
        if not entries:
            break
        index = chance.randrange(len(entries))
        name, content = entries[index]
        kind = chance.randrange(5)
        if kind == 0:
            entries[index] = (chance.choice(("x.npy", "../x.npy", "calib_x", "test_y.npy", "y_scale.npy")), content)
        elif kind == 1:
            del entries[index]
        elif kind == 2:
            entries[index] = (name, array(chance))
        else:
            entries[index] = (name, bytes_of(chance, content))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as new:
        for name, content in dict(entries).items():
            new.writestr(name, content)
    return out.getvalue()


def array(chance: random.Random) -> bytes:
    """An .npy of any type and a small shape."""
    kinds = ("<f4", "<f8", "<f2", ">f4", "i1", "u1", "<i4", "<i8", "<u8", "?", "<c8", "<U3", "S2", "<M8[s]", "V4")
    shape = tuple(chance.choice((0, 1, 2, 3, 6)) for _ in range(chance.randrange(6)))
    out = io.BytesIO()
    raw = chance.randbytes(int(np.prod(shape)) * np.dtype(kind := chance.choice(kinds)).itemsize)
    np.save(out, np.frombuffer(raw, kind)[: int(np.prod(shape))].reshape(shape) if raw else np.zeros(shape, kind))
    return out.getvalue()


@dataclass(frozen=True)
class Format:
    """A file, how it is written from a document (None: it is no document), and what a command does with it."""

    name: str
    file: str
    use: Callable[[Path], object]
    dump: Callable[[Any], str] | None = None
    parse: Callable[[str], Any] | None = None
    mutate: Callable[[random.Random, bytes], bytes] = bytes_of

    def mutated(self, chance: random.Random, data: bytes) -> bytes:
        if self.parse is None or self.dump is None or chance.random() < 0.3:
            return (bytes_of if chance.random() < 0.3 else self.mutate)(chance, data)
        changed = document(chance, self.parse(data.decode("utf-8")))
        try:
            return self.dump(changed).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError):  # what TOML cannot say, as null
            return bytes_of(chance, data)


class Network:
    """A small network, its data, profile and bundle in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        nodes = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Flatten", "r", "f"), node("Gemm", "f v", "l"),
                 node("Softmax", "l", "y")]  # fmt: skip
        constants = {"w": weights(3, 2, 3, 3), "b": weights(3), "v": weights(48, 4)}
        self.model = folder / "model.onnx"
        onnx.save(model(nodes, {"x": SHAPE}, constants), self.model)
        x = np.random.default_rng(0).normal(size=(8, *SHAPE[1:])).astype(np.float32)
        self.data = Dataset({"x": x}, shapes={"x": SHAPE})
        (folder / "profile.yaml").write_text(to_yaml(profile_model(self.model, self.data, OPTIONS)), "utf-8")
        self.graph = import_model(self.model, OPTIONS)
        self.specs = datasets.input_specs(self.graph)
        (folder / "precision.yaml").write_text(template(self.graph), "utf-8")
        np.savez(
            folder / "data.npz",
            calib_x=x,
            test_x=x,
            test_y=np.arange(8) % 4,
            x_scale=np.float32(0.5),
            x_zero=np.int32(0),
        )
        np.save(folder / "data.npy", x)
        (folder / "input_0.pb").write_bytes(onnx.numpy_helper.from_array(x[:1], "x").SerializeToString())
        farm_ = {"boards": [{"name": "a", "board": "mps2-an386", "timeout": 5}, {"board": "host", "data": "d.npz"}]}
        (folder / "farm.yaml").write_text(yaml.safe_dump(farm_), "utf-8")
        shutil.copy(resources.targets() / "cortex-m4.toml", folder / "target.toml")
        shutil.copytree(resources.targets() / "common", folder / "common")
        shutil.copytree(resources.boards() / "mps2-an386", folder / "board")
        compile_model(self.model, folder / "bundle", OPTIONS, self.data)
        image = layer("CONV_2D", (1, 6, 6, 2), (4, 3, 3, 2), (1, 3, 3, 4), {"StrideH": 2, "StrideW": 2})
        (folder / "model.tflite").write_bytes(image)

    def compile_tflite(self, path: Path) -> None:
        compile_model(path, self.folder / "out", OPTIONS)

    def compile_with_profile(self, path: Path) -> None:
        compile_model(self.model, self.folder / "out", OPTIONS, profile=Profile.load(path))

    def compile_with_precision(self, path: Path) -> None:
        compile_model(self.model, self.folder / "out", replace(OPTIONS, precision=path), self.data)

    def run_bundle(self, path: Path) -> None:
        del path
        bundle = load_bundle(self.folder / "bundle")
        with warnings.catch_warnings(action="ignore"):  # numbers of another type may overflow harmlessly
            run_int(bundle.graph, {n: a[0] for n, a in stored_inputs(bundle.graph, self.data).items()})

    def read_data(self, path: Path) -> None:
        datasets.load(path, self.specs, "calib")
        datasets.load(path, self.specs, "test")

    def formats(self) -> tuple[Format, ...]:
        as_yaml: Mapping[str, Any] = {"dump": yaml.safe_dump, "parse": yaml.safe_load}
        as_json: Mapping[str, Any] = {"dump": json.dumps, "parse": json.loads}
        as_toml: Mapping[str, Any] = {"dump": tomlkit.dumps, "parse": lambda text: tomlkit.parse(text).unwrap()}
        return (
            Format("profile", "profile.yaml", self.compile_with_profile, **as_yaml),
            Format("precision", "precision.yaml", self.compile_with_precision, **as_yaml),
            Format("manifest", "bundle/bundle.json", self.run_bundle, **as_json),
            Format("graph", "bundle/reference/graph.json", self.run_bundle, **as_json),
            Format("constants", "bundle/reference/constants.npz", self.run_bundle, mutate=archive),
            Format("npz", "data.npz", self.read_data, mutate=archive),
            Format("npy", "data.npy", self.read_data),
            Format("tensor", "input_0.pb", self.read_data),
            Format("farm", "farm.yaml", lambda path: farm.read(path, path, path), **as_yaml),
            Format("tflite", "model.tflite", self.compile_tflite, mutate=words_of),
            Format("target", "target.toml", read_target, **as_toml),
            Format("board", "board/board.toml", read_board, **as_toml),
        )


def check(network: Network, seed: int, number: int) -> str:
    """Mutate one file, use it, and put it back. A word for the count."""
    chance = random.Random(f"{seed} {number}")
    kind = chance.choice(network.formats())
    path = network.folder / kind.file
    before = path.read_bytes()
    manifest = network.folder / "bundle" / "bundle.json"
    whole = manifest.read_bytes()
    changed = kind.mutated(chance, before)
    path.write_bytes(changed)
    if kind.name in ("graph", "constants") and chance.random() < 0.8:  # the sum is right, as an attacker would have it
        manifest.write_bytes(whole.replace(*(hashlib.sha256(b).hexdigest().encode() for b in (before, changed))))
    try:
        kind.use(path)
        return f"{kind.name}: taken"
    finally:
        path.write_bytes(before)
        manifest.write_bytes(whole)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, help="one case, with its traceback")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        network = Network(Path(name))
        if args.show is not None:
            print(check(network, args.seed, args.show))
            return 0
        result = run(lambda number: check(network, args.seed, number), 0, args.cases, args.seconds, network.folder)
    by_signature: Mapping[str, list[Finding]] = result.distinct()
    for signature, findings in sorted(by_signature.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(findings)} x {signature}; case {findings[0].case}\n{findings[0].details}")
    print(f"seed {args.seed}: {result.cases} cases, {dict(result.outcomes.most_common())}")
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
