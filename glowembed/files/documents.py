"""Reads JSON, YAML and TOML that may be damaged or hostile. In: a file, or its text. Out: dicts, lists, texts, numbers;
or a UsageError.

Size and depth are bounded before a parser sees the text, because parsers recurse and some crash. Numbers must be
finite, keys unique, and YAML must not have anchors, with which a few lines can stand for gigabytes. `check` compares a
document with a JSON Schema. No other file is opened.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from glowembed.errors import UsageError
from glowembed.files import source

MAX_BYTES = 256 << 20
MAX_DEPTH = 40
"""Largest depth of nested lists and mappings; no file of ours has more than 8."""


def read_json(path: Path) -> Any:
    """Return the document in a JSON file."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """Return the document in a JSON text; `where` is the start of error messages."""
    if _depth(text) > MAX_DEPTH:
        raise _wrong(where, "JSON", f"lists within each other deeper than {MAX_DEPTH}")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise _wrong(where, "JSON", error) from error


def read_yaml(path: Path) -> Any:
    """Return the document in a YAML file."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Return the document in a YAML text; `where` is the start of error messages."""
    try:
        if _depth(text) > MAX_DEPTH or SUSPICIOUS.search(text):
            _check_events(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (ValueError, OverflowError, yaml.YAMLError) as error:
        raise _wrong(where, "YAML", error) from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document in a TOML file."""
    text = read_text(path)
    if _depth(text) > MAX_DEPTH:
        raise _wrong(str(path), "TOML", f"lists within each other deeper than {MAX_DEPTH}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: a key of a thousand dots
        raise _wrong(str(path), "TOML", error) from error


def check(document: Any, schema: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for the first part of a document that does not match its JSON Schema, and for numbers of YAML that are not finite."""
    from jsonschema import Draft202012Validator  # which takes long to import, and most commands check nothing

    error = next(Draft202012Validator(schema).iter_errors(document), None)
    if error is not None:
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)[:200]
        raise UsageError(f"{where}: {place.removeprefix('.') or 'the file'}: {error.message:.200}")
    for key, value in document.items() if isinstance(document, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{where}: {key}: {value} is not a finite number")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file of at most MAX_BYTES."""
    try:
        return source.read_bytes(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read: it is not UTF-8 text ({error.reason})") from error


def _wrong(where: str, kind: str, problem: object) -> UsageError:
    return UsageError(f"{where}: cannot be read as {kind}: {' '.join(str(problem).split()):.300}")


BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _depth(text: str) -> int:
    """The depth of nested brackets, not counting those in double quotes."""
    depth = deepest = 0
    for found in BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in "]}":
            depth -= 1
    return deepest


SUSPICIOUS = re.compile(r"[&*!]|^ {20}|^ *(?:[-?] +){8}", re.MULTILINE)
"""Matches YAML texts that may hold anchors, tags or deeply nested blocks. Only these are checked closely, which doubles
the time.
"""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r:.100} occurs twice")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text:.50} is not finite")
    return number


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"{twice!r:.100} occurs twice, in line {node.start_mark.line + 1}")
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


def _check_events(text: str) -> None:
    """Check depth, anchors and tags before anything recursive is built."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"lists within each other deeper than {MAX_DEPTH}")
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"the alias *{event.anchor} in line {event.start_mark.line + 1}: write the values out")
        if getattr(event, "tag", None):
            raise ValueError(f"the tag {event.tag} in line {event.start_mark.line + 1}: write it without")
