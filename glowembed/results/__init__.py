"""The types of what `--json` prints, command by command. In: nothing. Out: RESULTS, from which docs/schemas is made.

Fields may be added to a result, but none changes its meaning; otherwise `schema` is raised.
"""

from __future__ import annotations

from typing import Any

from glowembed.results import bundles, figures, inspection, lists, measurement, validation

RESULTS: dict[str, Any] = {
    "board-new": lists.NewBoard,
    "boards": list[lists.Board],
    "build": bundles.Build,
    "combine": bundles.Combined,
    "compile": bundles.Manifest,
    "debug": figures.Debug,
    "demo": list[validation.Validation],
    "detect": figures.Detect,
    "docs": lists.Documents,
    "doctor": lists.Doctor,
    "export": bundles.Export,
    "flash": lists.Flashed,
    "inspect": inspection.Inspection,
    "inspect-memory": inspection.Memory,
    "inspect-quantization": list[inspection.LayerNumbers],
    "measure": measurement.Measurement,
    "ports": list[lists.Port],
    "precision": inspection.Precision,
    "profile": figures.Profiled,
    "regress": list[validation.RegressRow],
    "results": lists.Results,
    "targets": list[lists.Target],
    "try": validation.Trial,
    "tune": figures.Tuned,
    "validate": validation.Validation,
    "validate-boards": validation.Farm,
}
"""The type of each result. `inspect-memory` and `inspect-quantization` describe a bundle, and `validate-boards` a
farm.
"""
