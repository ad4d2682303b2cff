"""Prints the sha256 of the bundles of models for all targets and laws, so that two commits can be compared with diff.

    python benchmarks/hashes.py MODELS [--only NAME ...] [--targets NAME ...] > table.txt

In: a folder with a folder for each model, which holds model.onnx and data.npz. Out: a line a bundle, `model target law sha256`; the
hash is of the names and contents of all its files but bundle.json, whose records name the version and its options. Where a model is
refused, the line holds the name of the error instead of the hash.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path
from typing import get_args

from glowembed.errors import GlowembedError
from glowembed.graph.target import target_names
from glowembed.law.modes import Mode
from glowembed.pipeline import CompileOptions, compile_model


def hash_of(folder: Path) -> str:
    """The sha256 of all files below a folder except bundle.json."""
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "bundle.json"):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def cell(model: Path, target: str, law: str) -> str:
    """The hash of one bundle, or the name of the error."""
    with tempfile.TemporaryDirectory() as place:
        try:
            options = CompileOptions(target, name="net", requantization=law)  # type: ignore[arg-type]
            compile_model(model / "model.onnx", Path(place) / "net", options, model / "data.npz")
        except GlowembedError as error:
            return type(error).__name__
        return hash_of(Path(place) / "net")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", nargs="+", help="these models instead of all")
    parser.add_argument("--targets", nargs="+", help="these targets instead of all")
    given = parser.parse_args()
    targets = given.targets or target_names()
    for model in sorted(path.parent for path in given.models.glob("*/model.onnx")):
        for target in targets if not given.only or model.name in given.only else ():
            for law in get_args(Mode):
                print(model.name, target, law, cell(model, target, law), flush=True)


if __name__ == "__main__":
    main()
