"""Draw docs/architecture.svg from the imports of the package; scripts/generate_docs.py writes it.

A box is a package of glowembed/ with the first sentence of its docstring; its height in the drawing follows from the imports.
Only its column is chosen here. tests/repository/test_architecture.py reads the same imports.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "glowembed"


def imported(path: Path) -> set[str]:
    """Modules of glowembed, below the package, that a file imports when it runs; type-checking imports do not count."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "glowembed":
            found.update(_module(f"{node.module}.{alias.name}") for alias in node.names)
        if isinstance(node, ast.Import):
            found.update(_module(a.name) for a in node.names if a.name.startswith("glowembed."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text("utf-8")))
    return found


def _module(dotted: str) -> str:
    """The module that `from a import b` loads for a.b: a.b itself, or a where b is a name in it."""
    below = dotted.removeprefix("glowembed.")
    return below if below in MODULES else below.rpartition(".")[0] or "__init__"


def module_of(path: Path) -> str:
    """The dotted name of a file below the package."""
    below = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return below if below == "__init__" else below.removesuffix(".__init__")


def within(module: str, names: Iterable[str]) -> str | None:
    """The longest of these names of modules or packages that the module is or lies in."""
    found = [name for name in names if module == name or module.startswith(f"{name}.")]
    return max(found, key=len, default=None)


FILES = sorted(p for p in PACKAGE.rglob("*.py") if "_data" not in p.parts)
MODULES = {module_of(path) for path in FILES}


@dataclass(frozen=True)
class Box:
    """A package: its first and last column, its colour, and its place in the order of compile_model's calls."""

    first: int
    last: int
    kind: str
    step: int = 0


BOXES: Mapping[str, Box] = {
    "commands": Box(0, 6, "user"),
    "cli": Box(0, 1, "user"),
    "show": Box(4, 6, "user"),
    "judge": Box(4, 6, "check"),
    "measure": Box(6, 6, "check"),
    "run": Box(6, 6, "check"),
    "export": Box(2, 3, "user"),
    "jobs": Box(5, 5, "check"),
    "pipeline": Box(0, 4, "stage"),
    "read": Box(1, 1, "stage", 1),
    "canonicalize": Box(0, 0, "stage", 2),
    "ranges": Box(1, 1, "stage", 3),
    "quantize": Box(1, 2, "stage", 4),
    "lower": Box(3, 3, "stage", 5),
    "plan": Box(6, 6, "stage", 6),
    "emit": Box(5, 6, "stage", 7),
    "image": Box(5, 6, "check"),
    "ops": Box(4, 4, "knowledge"),
    "kernels": Box(4, 4, "knowledge"),
    "ops.shared": Box(2, 2, "knowledge"),
    "options": Box(0, 1, "knowledge"),
    "graph": Box(0, 6, "knowledge"),
    "nest": Box(0, 3, "knowledge"),
    "law": Box(0, 3, "knowledge"),
    "files": Box(4, 6, "knowledge"),
}
LEFT_OUT = {"__init__", "__main__", "errors", "progress", "records", "reference", "resources", "results", "version"}
"""Modules without a box: the entry points, small modules that any package may use, and the types from which
docs/schemas is made.
"""

COLOURS = {"user": "#dbe9f6", "check": "#fbe3cf", "stage": "#dcefd9", "knowledge": "#e9e3f4"}
LEGEND = (
    ("user", "what users see"),
    ("check", "what runs and checks bundles"),
    ("stage", "the compiler: stages 1 to 7, in order"),
    ("knowledge", "what the stages know and exchange"),
)
NOTES = (
    "An arrow points to what a package imports.",
    "Arrows that follow from others are left out.",
    "graph.op finds ops and kernels at run time.",
)
COLUMN, ROW, WIDTH, HEIGHT, MARGIN = 172, 116, 156, 84, 12
TEXT = 'font-family="Helvetica, Arial, sans-serif"'


def imports() -> dict[str, set[str]]:
    """Box -> the boxes that it imports. Raises ValueError for a package that is not drawn yet."""
    found: dict[str, set[str]] = {name: set() for name in BOXES}
    for path in FILES:
        mine = within(module_of(path), (*BOXES, *LEFT_OUT))
        if mine is None:
            raise ValueError(f"{module_of(path)} has no box in scripts/draw_architecture.py: add it to BOXES")
        others = {within(module, BOXES) for module in imported(path)} - {None, mine}
        if mine in found:
            found[mine].update(other for other in others if other is not None)
    TopologicalSorter(found).prepare()  # raises CycleError, which names the boxes
    return found


def reduced(graph: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """The graph without the edges that a longer path implies."""

    def reached(name: str) -> set[str]:
        return graph[name].union(*(reached(other) for other in graph[name]))

    return {name: sorted(to - set().union(*(reached(other) for other in to))) for name, to in graph.items()}


def rows(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Box -> its row from the top: one below its lowest importer, or if nothing imports it, one above the highest box
    that it imports.
    """
    users = {name: {other for other in graph if name in graph[other]} for name in graph}

    def depth(name: str) -> int:
        return max((depth(user) + 1 for user in users[name]), default=0)

    found = {name: depth(name) for name in graph}
    for name in graph:  # nothing imports ops: its modules are found at run time
        if not users[name] and graph[name]:
            found[name] = min(found[other] for other in graph[name]) - 1
    return found


def svg() -> str:
    """Return the whole drawing as SVG."""
    graph = imports()
    row = rows(graph)
    width = COLUMN * (1 + max(box.last for box in BOXES.values())) + 2 * MARGIN - (COLUMN - WIDTH)
    height = ROW * (1 + max(row.values())) + 2 * MARGIN - (ROW - HEIGHT)
    lines = [_line(a, b, row) for a, to in reduced(graph).items() for b in to]
    boxes = [part for name in BOXES for part in _box(name, row[name])]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {TEXT}>'
    arrow = (
        '<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 1 L10 5 L0 9 z" fill="#555"/></marker>'
    )
    parts = [head, "<title>The packages of glowembed and their imports</title>", f"<defs>{arrow}</defs>"]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    return "\n".join([*parts, *lines, *boxes, *_legend(row["show"]), "</svg>\n"])


def _left(column: int) -> int:
    return MARGIN + COLUMN * column


def _right(column: int) -> int:
    return _left(column) + WIDTH


def _line(a: str, b: str, row: Mapping[str, int]) -> str:
    """An arrow from box a down to box b: vertical where the boxes overlap horizontally, otherwise to the nearer end."""
    first, last = max(BOXES[a].first, BOXES[b].first), min(BOXES[a].last, BOXES[b].last)
    if first <= last:
        start = end = (_left(first) + _right(last)) // 2
    elif BOXES[a].first > BOXES[b].last:
        start, end = _left(BOXES[a].first) + 24, _right(BOXES[b].last) - 24
    else:
        start, end = _right(BOXES[a].last) - 24, _left(BOXES[b].first) + 24
    top, bottom = _top(row[a]) + HEIGHT, _top(row[b])
    return f'<path d="M{start} {top} L{end} {bottom}" stroke="#555" stroke-width="1.5" marker-end="url(#arrow)"/>'


def _top(row: int) -> int:
    return MARGIN + ROW * row


def _box(name: str, row: int) -> list[str]:
    box = BOXES[name]
    x, y, width = _left(box.first), _top(row), _right(box.last) - _left(box.first)
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="5" fill="{COLOURS[box.kind]}" stroke="#777"/>'
    ]
    title = f"{box.step} {name}" if box.step else name
    parts.append(f'<text x="{x + 8}" y="{y + 18}" font-size="14" font-weight="bold">{escape(title)}</text>')
    for index, line in enumerate(textwrap.wrap(_sentence(name), (width - 12) * 10 // 66, break_on_hyphens=False)):
        parts.append(f'<text x="{x + 8}" y="{y + 34 + 13 * index}" font-size="11">{escape(line)}</text>')
    return parts


def _sentence(name: str) -> str:
    """The first sentence of the docstring of a package or module."""
    path = PACKAGE.joinpath(*name.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").split())
    return text.split(". ")[0].rstrip(".")


def _legend(row: int) -> list[str]:
    x, y = _left(2), _top(row) + 14
    parts = [f'<text x="{x}" y="{y + 18 * i}" font-size="11.5">{escape(note)}</text>' for i, note in enumerate(NOTES)]
    for index, (kind, words) in enumerate(LEGEND):
        below = y + 18 * (len(NOTES) + index)
        parts.append(f'<rect x="{x}" y="{below - 10}" width="20" height="13" fill="{COLOURS[kind]}" stroke="#777"/>')
        parts.append(f'<text x="{x + 28}" y="{below}" font-size="11.5">{escape(words)}</text>')
    return parts
