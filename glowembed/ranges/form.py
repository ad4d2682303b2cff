"""Reads and writes the form in which a model was profiled: its shapes, its cut and its front end. In: YAML. Out: a
Form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from glowembed.errors import UsageError
from glowembed.graph.ir import Shape
from glowembed.options.cut import WHOLE, Cut, read_constants, written_constants
from glowembed.options.frontend import Frontend, from_document, written_frontend
from glowembed.records import dataclass


@dataclass(frozen=True)
class Form:
    """The part of the model that was profiled, its shapes, and the front end before it, so that `compile` need not ask
    for them again.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    cut: Cut = WHOLE
    frontend: Frontend | None = None

    def json(self) -> dict[str, Any]:
        """The entries that are not empty."""
        shapes = {name: list(self.shapes[name]) for name in sorted(self.shapes)}
        frontend = written_frontend(self.frontend)
        cut = {
            "inputs": list(self.cut.inputs),
            "outputs": list(self.cut.outputs),
            "constants": written_constants(self.cut.constants),
        }
        entries = {"shapes": shapes, **cut, "frontend": frontend}
        return {key: value for key, value in entries.items() if value}

    @classmethod
    def read(cls, entry: Any, where: str) -> Form:
        """The form that a profile recorded."""
        try:
            shapes = {str(name): tuple(map(int, dims)) for name, dims in entry.get("shapes", {}).items()}
            inputs, outputs = (tuple(map(str, entry.get(key, ()))) for key in ("inputs", "outputs"))
            cut = Cut(inputs, outputs, read_constants(entry.get("constants", {})))
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"{where}: 'form' must hold 'shapes', 'inputs', 'outputs' and 'constants', found {entry!r:.80}"
            ) from error
        frontend = from_document(entry["frontend"], f"{where}: frontend") if "frontend" in entry else None
        return cls(shapes, cut, frontend)


UNSAID = Form()
"""The form of a profile of a whole model with the model's own shapes."""
