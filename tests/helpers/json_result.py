"""Checks what a command printed with --json against the schema in docs/schemas."""

from __future__ import annotations

import json
from typing import Any

from checkout import ROOT
from jsonschema import Draft202012Validator


def check_json(name: str, result: Any) -> None:
    """Fail if a field is missing, has another type, or is not described."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(result)
