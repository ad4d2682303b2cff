"""Measures each slice of a bundle that can run in slices. In: a Bundle, its Image, samples. Out: figures for each slice.

A slice is to the harness what a layer is otherwise: a second firmware of the same sources calls NAME_step where the first one calls
NAME_run_layers.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from glowembed.image import glue
from glowembed.image.build import Image
from glowembed.image.bundles import Bundle
from glowembed.judge.validation import build_bundle
from glowembed.measure import Figures, Ruler, measure
from glowembed.run import Bytes


def measured_slices(bundle: Bundle, image: Image, samples: Bytes, ruler: Ruler = "table") -> tuple[Figures, ...]:
    """The figures of each slice; none if the bundle has no slices."""
    if "slices" not in bundle.manifest:
        return ()
    manifest = glue.by_slices(bundle.manifest)
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        twin = Path(folder) / bundle.path.resolve().name
        shutil.copytree(bundle.path, twin)
        (twin / "bundle.json").write_text(json.dumps(manifest))
        built = build_bundle(twin, image.board.reference, Path(folder) / "build", image.transport)
        return measure(built, manifest, samples, ruler=ruler).layers
