"""Reads samples from a .csv file. In: a path and the inputs of the model. Out: the samples, and labels if there are
any.

Every row is one sample. Without a header, its numbers are those of the single input, in memory order. With a header, a
column belongs to the input whose name it has, alone or followed by an index (`x`, `x[3]`, `x.3`, `x_3`); columns of an
input are used in their order. If the model has one input and no column has its name, all columns are its numbers. A
column named in LABELS, or by --labels, holds the labels. Cells are separated by commas, semicolons or tabs. An empty cell
is NaN for a model that tests for NaN.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from itertools import compress
from math import prod
from pathlib import Path

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.files.source import read_bytes
from glowembed.graph.ir import Array
from glowembed.ranges.spec import InputSpec, Raw, only

LABELS = ("test_y", "y", "label", "labels", "class", "target")
"""Names of the column with labels."""

INDEX = r"[\[._ ]?\(?\d+(?:[\])., _]*\d*)*"


def read(path: Path, inputs: Sequence[InputSpec], labels: str | None) -> Raw:
    """The samples of the file. Raises UsageError, which names the line and the column of the problem."""
    header, lines, rows = _rows(path, any(spec.missing for spec in inputs))
    if not header:
        spec = only(path, inputs)
        if labels is not None:
            raise UsageError(f"{path}: --labels {labels!r}: the file has no header with names of columns")
        return Raw({spec.name: _shaped(path, rows, spec, range(rows.shape[1]), lines)})
    label = _label(path, header, inputs, labels)
    columns = _columns(path, header, inputs, label)
    arrays = {spec.name: _shaped(path, rows, spec, columns[spec.name], lines) for spec in inputs}
    return Raw(arrays, None if label is None else _classes(rows[:, label]))


def _rows(path: Path, missing: bool) -> tuple[list[str], list[int], Array]:
    """The names of the columns if the first row has them, the line number of each row, and the numbers. missing:
    whether an empty cell is NaN.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not text in UTF-8: {error.reason} at byte {error.start}") from error
    delimiter = next((mark for mark in (";", "\t") if mark in text.partition("\n")[0]), ",")
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    try:
        rows = (row for row in reader if any(map(str.strip, row)))
        found = [(reader.line_num, [_cell(cell, delimiter, missing) for cell in row]) for row in rows]
    except csv.Error as error:
        raise UsageError(f"{path}: line {reader.line_num}: {error}") from error
    header = found[0][1] if found and not all(map(_is_number, found[0][1])) else []
    body = found[1:] if header else found
    if not body:
        raise UsageError(f"{path}: holds no samples; every row must be one")
    width = len(header or body[0][1])
    for line, row in body:
        if len(row) != width:
            raise UsageError(f"{path}: line {line} has {len(row)} columns, and the first row has {width}")
        wrong = next(compress(enumerate(row), (not _is_number(cell) for cell in row)), None)
        if wrong is not None:
            name = f" ({header[wrong[0]]!r})" if header else ""
            raise UsageError(f"{path}: line {line}, column {wrong[0] + 1}{name}: {wrong[1]!r:.40} is not a number")
    numbers = np.array([[float(cell) for cell in row] for _, row in body])
    return header, [line for line, _ in body], numbers


def _cell(text: str, delimiter: str, missing: bool) -> str:
    """The text of a cell. Where semicolons or tabs separate the cells, a comma is a decimal one: 0,5 is a half."""
    text = text.strip() or ("nan" if missing else "")
    decimal = text.replace(",", ".")
    return decimal if delimiter != "," and _is_number(decimal) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _label(path: Path, header: Sequence[str], inputs: Sequence[InputSpec], labels: str | None) -> int | None:
    """The index of the column with labels."""
    if labels is not None:
        if labels not in header:
            raise unknown_name(f"label column in {path}:", labels, header)
        return header.index(labels)
    names = {spec.name for spec in inputs}
    return next((i for i, name in enumerate(header) if name.lower() in LABELS and name not in names), None)


def _columns(
    path: Path, header: Sequence[str], inputs: Sequence[InputSpec], label: int | None
) -> Mapping[str, Sequence[int]]:
    """The columns of each input."""
    free = [i for i in range(len(header)) if i != label]
    mine = {
        spec.name: [i for i in free if re.fullmatch(f"{re.escape(spec.name)}(?:{INDEX})?", header[i])]
        for spec in inputs
    }
    if len(inputs) == 1 and not mine[inputs[0].name]:
        return {inputs[0].name: free}
    for name, columns in mine.items():
        if not columns:
            raise unknown_name(f"column in {path} for the input", name, header)
    used = {i for columns in mine.values() for i in columns}
    if spare := [header[i] for i in free if i not in used]:
        raise UsageError(
            f"{path}: the columns {', '.join(map(repr, spare[:5]))} belong to no input of the model"
            f" ({', '.join(mine)}); remove them, or name the labels with --labels"
        )
    return mine


def _shaped(path: Path, rows: Array, spec: InputSpec, columns: Sequence[int], lines: Sequence[int]) -> Array:
    wanted = prod(spec.sample_shape)
    if len(columns) != wanted:
        raise UsageError(
            f"{path}: line {lines[0]} has {len(columns)} numbers for the input {spec.name!r} of shape {list(spec.shape)},"
            f" which takes {wanted}"
        )
    numbers: Array = rows[:, columns].reshape(len(rows), *spec.sample_shape)
    return numbers if spec.dtype != "float32" else numbers.astype(np.float32)


def _classes(column: Array) -> Array:
    """Labels as integers, if all of them are integers."""
    whole: Array = column.astype(np.int64)
    return whole if np.array_equal(whole, column) else column.astype(np.float32)
