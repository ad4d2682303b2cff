"""JSON Schemas of what `--json` prints, made from the types in glowembed/results. In: a type. Out: a schema (draft 2020-12).

A TypedDict becomes an object without further properties: a field that is printed and not described is a defect.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from glowembed.results import RESULTS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {int: "integer", float: "number", bool: "boolean", str: "string", type(None): "null"}


FILES = {f"{name}.json": result for name, result in RESULTS.items()}
"""The type that each file in docs/schemas describes."""


def text(file: str) -> str:
    """The content of a file in docs/schemas."""
    return json.dumps(schema(file), indent=2) + "\n"


def schema(file: str) -> dict[str, Any]:
    """The schema of a file in docs/schemas, complete with the parts that it refers to."""
    found: dict[str, Any] = {}
    title = f"glowembed {file.removesuffix('.json').replace('-', ' ')}"
    return {"$schema": DRAFT, "title": title, **schema_of(FILES[file], found), "$defs": found}


def schema_of(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; TypedDicts that it contains are added to `found`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        if name not in found:
            found[name] = {}
            found[name] = _object(kind, found)
        return {"$ref": f"#/$defs/{name}"}
    if origin is Annotated:
        return {**schema_of(arguments[0], found), "description": " ".join(arguments[1:])}
    if origin is NotRequired:
        return schema_of(arguments[0], found)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(a, found) for a in arguments]}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], found)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], found)}
    return {} if kind is Any else {"type": PLAIN[kind]}


def _object(kind: Any, found: dict[str, Any]) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {name: schema_of(hint, found) for name, hint in hints.items()},
        "required": [name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
        "additionalProperties": False,
    }
