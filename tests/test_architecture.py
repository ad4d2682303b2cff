"""Imports go one way, and each op, kernel, target and board touches only its own files."""

import ast
import re
from pathlib import Path

import pytest

from glowembed.emit.csource import kernel_source
from glowembed.graph.op import kernel_ops, ops

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "glowembed"

LAYERS = [
    {"blas", "errors", "version", "levels", "fixedpoint", "floatmath", "wide", "cstruct", "cnames", "resources", "progress", "notes", "tflite"},
    {"ir", "plan"},
    {"target", "op"},
    {"footprint", "costs", "curve", "rows", "order", "schedule", "placement", "split", "emit_kernels", "emit_schedule", "emit_weights", "graphfile", "layout", "builder", "spatial", "linear", "dsp", "dsp_block", "dsp_conv", "dsp_depthwise", "dsp_direct", "dsp_lines", "winograd", "polynomial", "broadcast", "mve", "plain", "portable", "threes", "x86", "schema", "csource", "weights"},
    {"ops"},
    {"importer", "onnxfile", "onnxquant", "onnxdata", "canonicalize", "datasets", "reference", "profile", "calibrate", "plot", "graph_view", "precision", "quantize", "biases", "simplify_q", "lower", "places", "choose", "memory", "replay",
     "emit", "glue", "mlperf", "elf"},
    {"pipeline", "build", "combine", "inspection"},
    {"run"},
    {"measure"},
    {"compare", "memory_view", "curve_view", "validation", "debugging", "bundleview", "tune", "regress", "farm"},
    {"report", "page"},
    {"cli"},
    {"commands"},
    {"__init__", "__main__"},
]  # fmt: skip
STAGES = ("importer", "canonicalize", "quantize", "biases", "simplify_q", "lower", "places", "choose", "memory", "emit")
ONNX_ALLOWED = {"importer.py", "onnxfile.py", "onnxdata.py"}


def imported(path: Path) -> set[str]:
    """Top-level module names of glowembed that a file imports when it runs; type-checking imports do not count."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "glowembed":
            parts = node.module.split(".")
            found.update([parts[1]] if len(parts) > 1 else [a.name for a in node.names])
        if isinstance(node, ast.Import):
            found.update(a.name.split(".")[1] for a in node.names if a.name.startswith("glowembed."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text("utf-8")))
    return found


def module_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


FILES = sorted(PACKAGE.rglob("*.py"))
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_go_one_way(path: Path) -> None:
    mine = module_of(path)
    assert mine in RANK, f"{mine} has no layer yet: give it one in LAYERS"
    for other in imported(path):
        assert other in RANK, f"{mine} imports {other}, which has no layer"
        assert RANK[other] <= RANK[mine], f"{mine} must not import {other}"
        assert not (mine in STAGES and other in STAGES and mine != other), f"stage {mine} imports stage {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_only_the_importer_knows_onnx(path: Path) -> None:
    if path.name not in ONNX_ALLOWED:
        assert not re.search(
            r"^\s*(import onnx\b(?!runtime)|from onnx\b(?!runtime))", path.read_text("utf-8"), re.MULTILINE
        )


def test_every_kernel_has_its_file_and_every_file_its_kernel() -> None:
    named = {k.file for op in kernel_ops().values() for k in op.kernels}
    files = {p.name for p in (ROOT / "runtime_c" / "kernels").glob("*.c")}
    assert named == files


@pytest.mark.parametrize("name", sorted(kernel_ops()))
def test_a_kernel_file_defines_one_kernel_and_prefixes_its_helpers(name: str) -> None:
    for kernel in kernel_ops()[name].kernels:
        stem = kernel.symbol.removeprefix("ge_")
        text = kernel_source(kernel, ROOT / "runtime_c")
        functions = re.findall(r"^static (?:inline )?[\w ]+?\*?(\w+)\(", text, re.MULTILINE)
        assert functions.count(kernel.symbol) == 1
        assert all(f == kernel.symbol or f.startswith(f"{stem}_") for f in functions), functions
        assert not re.search(r"^\s*#\s*if(?!ndef GE_)", text, re.MULTILINE), "no #if in a kernel"


def test_every_onnx_operator_has_one_importer() -> None:
    kinds = [kind for op in ops().values() for kind in op.onnx]
    assert len(kinds) == len(set(kinds))
