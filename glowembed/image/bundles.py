"""Writes bundles to disk as a whole, and reads them again with their integer reference. In:

the files of a bundle, or its folder. Out: a Bundle. It also answers later commands' questions about the options of a
bundle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glowembed.emit import graphfile
from glowembed.emit.manifest import SCHEMA
from glowembed.errors import UsageError
from glowembed.files import documents, output
from glowembed.graph.ir import Graph, Shape
from glowembed.graph.notes import Note
from glowembed.image import glue
from glowembed.options.cut import Cut, read_constants
from glowembed.options.frontend import from_document
from glowembed.options.table import CompileOptions
from glowembed.ranges.datasets import ImageOptions
from glowembed.records import dataclass

if TYPE_CHECKING:
    from glowembed.lower.choose import Choice

NEEDED = ("model", "options", "weights", "weights_bytes", "schedule", "buffers", "macs")
"""Keys of bundle.json that commands read, in addition to those that every build reads."""

MEMORY_FILE = ".glowembed.json"
"""A file beside the bundle, not part of it, that records where the model was, so that validate finds it again."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk. `graph` is the kernel-level graph that reference.run_int executes bit for bit."""

    path: Path
    manifest: Mapping[str, Any]
    graph: Graph
    model_path: Path | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    notes: tuple[Note, ...] = ()

    def _repr_html_(self) -> str:
        """An HTML table, which notebooks show if a bundle is the result of a cell."""
        manifest = self.manifest
        rows = {
            "model": manifest["model"]["file"],
            "target": manifest["target"],
            "folder": self.path,
            "RAM (arena)": f"{manifest['arena']['size']:,} bytes",
            "weights": f"{manifest['weights_bytes']:,} bytes",
            "multiply-accumulates": f"{manifest['macs']:,}",
            "layers": len(manifest["layers"]),
        }
        for kind in ("inputs", "outputs"):
            rows[kind] = ", ".join(f"{t['name']}: {t['dtype']} {t['shape']}" for t in manifest[kind])
        rows |= {note.code: note.text for note in self.notes if note.level == "warning"}
        lines = (f"<tr><th>{escape(str(key))}</th><td>{escape(str(value))}</td></tr>" for key, value in rows.items())
        return f"<table><caption>{escape(manifest['name'])}</caption>{''.join(lines)}</table>"


def build_folder(bundle: Path) -> Path:
    """The folder beside a bundle for its programs, and for the file of a model that was an object."""
    place = bundle.resolve()
    return place.parent / f"{place.name}.build"


def write_bundle(out_dir: Path, files: Mapping[str, bytes], model: Path) -> None:
    """Write a bundle, and record where its model was."""
    note = json.dumps({"model": str(model.absolute())}) + "\n"
    output.write_folder(out_dir, {**files, MEMORY_FILE: note.encode("utf-8")})


def load_bundle(path: Path | str) -> Bundle:
    """Load a bundle with its integer reference from disk. Raises UsageError if it is not a bundle, or was changed."""
    path = Path(path)
    manifest = glue.read_manifest(path)
    if manifest["schema"] != SCHEMA:
        raise UsageError(
            f"{path} is a bundle of schema {manifest['schema']}, this glowembed reads {SCHEMA}: compile again"
        )
    missing = [key for key in NEEDED if key not in manifest]
    if missing:
        raise UsageError(f"{path / 'bundle.json'} lacks {', '.join(missing)}; compile the model again")
    graph = graphfile.read(path, manifest.get("reference", {}))
    for kind, names in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if [tensor["name"] for tensor in manifest[kind]] != list(names):
            raise UsageError(
                f"{path}: the {kind} of bundle.json are not those of its reference; compile the model again"
            )
    return Bundle(path, manifest, graph, _remembered_model(path))


def _remembered_model(path: Path) -> Path | None:
    try:
        return Path(documents.read_json(path / MEMORY_FILE)["model"])
    except (UsageError, KeyError, TypeError):
        return None


def window_of(bundle: Bundle) -> Graph:
    """The integer reference of the network on whole windows, from which a stream was made."""
    return graphfile.read(bundle.path, {}, graphfile.WINDOW)


def images_of(bundle: Bundle) -> ImageOptions:
    """How images were read when the bundle was calibrated; they must be read in the same way again."""
    calibrated = bundle.manifest.get("calibration") or {}
    return ImageOptions.read(calibrated.get("images"), str(bundle.path)) or ImageOptions()


def shapes_of(bundle: Bundle) -> dict[str, Shape]:
    """The shapes of inputs that were given to `compile --shape`."""
    return {name: tuple(dims) for name, dims in bundle.manifest["options"].get("shapes", {}).items()}


def cut_of(bundle: Bundle) -> Cut:
    """The values at which `compile` cut the model."""
    options = bundle.manifest["options"]
    constants = read_constants(options.get("constants", {}))
    return Cut(tuple(options.get("inputs", ())), tuple(options.get("outputs", ())), constants)


def form_of(bundle: Bundle) -> CompileOptions:
    """The options that say which part of the model the bundle computes, and for which shapes, so that later commands
    need not ask for them.
    """
    layout = bundle.manifest["options"]["input_layout"]
    states = dict(bundle.manifest["options"].get("states", {}))
    entry = bundle.manifest["options"].get("frontend")
    frontend = None if entry is None else from_document(entry, str(bundle.path / "bundle.json"))
    return CompileOptions(
        shapes=shapes_of(bundle), cut=cut_of(bundle), input_layout=layout, states=states, frontend=frontend
    )
