"""Imports go one way, and each op, kernel, target and board touches only its own files."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from checkout import ROOT
from draw_architecture import FILES, PACKAGE, imported, module_of, within

from glowembed.graph.registry import importers, kernel_ops, ops

LAYERS = [
    {"errors", "version", "resources", "progress", "records"},
    {"files"},
    {"jobs"},
    {"law"},
    {"nest"},
    {"graph"},
    {"options"},
    {"results"},
    {"ops.shared"},
    {"ops"},
    {"kernels"},
    {"reference"},
    {"read", "canonicalize", "ranges", "quantize", "lower", "plan", "emit", "image"},
    {"pipeline"},
    {"export"},
    {"run"},
    {"measure"},
    {"judge"},
    {"show"},
    {"cli"},
    {"commands"},
    {"__init__", "__main__"},
]
"""Packages and modules from the bottom up. A module listed separately does not belong to its package's layer."""

STAGES = (
    "read.model", "canonicalize", "quantize.typed", "quantize.simplify", "lower.nodes", "lower.choose",
    "plan.places", "plan.memory", "emit.bundle",
)  # fmt: skip
"""The modules that pipeline.py calls in turn: none of them may import another."""

FLAT = 11
"""The most modules that glowembed/ itself may contain."""

ONNX_ALLOWED = {
    "importer.py", "walk.py", "folding.py", "nodes.py", "nests.py", "functions.py", "contrib.py", "operand.py", "subgraphs.py", "composed.py", "patterns.py", "normalizations.py", "body.py", "attentions.py", "labels.py",
    "doubles.py", "inside.py", "inference.py", "onnxfile.py", "onnxfold.py", "onnxdata.py", "objects.py", "cut.py",
}  # fmt: skip


RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

TEXTS = {path: path.read_text("utf-8") for path in FILES}


@cache
def imports() -> dict[Path, set[str]]:
    """What each file imports of the package."""
    return {path: imported(path) for path in FILES}


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """Every node of every file. Tests loop over them, because a test for each file takes longer than what it checks."""
    for path, text in TEXTS.items():
        for node in ast.walk(ast.parse(text)):
            yield path, node


def test_imports_go_one_way() -> None:
    for path, found in imports().items():
        mine = within(module_of(path), RANK)
        assert mine is not None, f"{module_of(path)} has no layer yet: give it one in LAYERS"
        for module in found:
            other = within(module, RANK)
            assert other is not None, f"{mine} imports {module}, which has no layer"
            assert RANK[other] <= RANK[mine], f"{module_of(path)} must not import {module}"
            stages = within(module_of(path), STAGES), within(module, STAGES)
            assert None in stages or stages[0] == stages[1], f"stage {stages[0]} imports stage {stages[1]}"


def test_the_listing_is_the_pipeline() -> None:
    flat = [path.name for path in PACKAGE.glob("*.py")]
    assert len(flat) < FLAT, f"give one of these a package: {flat}"
    loose = [path.name for path in (PACKAGE / "kernels").glob("*.py") if path.name != "__init__.py"]
    assert not loose, f"a module of kernels/ belongs to a core's folder, or to shared/: {loose}"


def test_only_the_importer_knows_onnx() -> None:
    others = {p: text for p, text in TEXTS.items() if p.name not in ONNX_ALLOWED and "tflite" not in p.parts}
    known = r"^\s*(import onnx\b(?!runtime)|from onnx\b(?!runtime))"
    assert [path for path, text in others.items() if re.search(known, text, re.MULTILINE)] == []


def test_dataclasses_are_quick_to_import() -> None:
    known = r"^ *from dataclasses import .*\bdataclass\b"
    assert [path.name for path, text in TEXTS.items() if re.search(known, text, re.MULTILINE)] == ["records.py"]


def test_no_pass_lists_ops() -> None:
    """Properties that several ops share are traits that each op declares, so that a new op needs no change
    elsewhere.
    """
    know_onnx = {p for p in FILES if p.name in ONNX_ALLOWED or module_of(p).startswith(("ops.", "read.tflite."))}
    for path, node in nodes():
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and path not in know_onnx else []
        named = [part.value for part in parts if isinstance(part, ast.Constant) and part.value in ops()]
        assert len(named) < 2, f"{path}:{node.lineno} lists {named}: declare a trait in graph/op.py"


def _strings(node: ast.expr) -> list[object]:
    """The constants of one operand of a comparison: itself, or the elements of a tuple, list or set."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant)]


def test_no_op_is_compared_by_its_name() -> None:
    """In ops/ and read/, names of operators are those of ONNX; only a Node's own `op` is not compared with them there."""
    for path, node in nodes():
        sides: list[ast.expr] = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        if not sides:
            continue
        knows_onnx = module_of(path).startswith(("ops.", "read."))
        if knows_onnx and not any(isinstance(side, ast.Attribute) and side.attr == "op" for side in sides):
            continue
        named = [name for side in sides for name in _strings(side) if name in ops() or name in kernel_ops()]
        assert not named, (
            f"{path}:{node.lineno} compares with {named}: declare a trait in graph/op.py, or match by is_a"
        )


MATCHING = {
    "canonicalize.affine", "canonicalize.along_rows", "canonicalize.attention", "canonicalize.cells", "canonicalize.clips",
    "canonicalize.pads", "canonicalize.products", "canonicalize.reshapes", "canonicalize.rewrite", "canonicalize.stored",
    "canonicalize.transposes", "canonicalize.unrolled", "emit.tensors", "judge.inspection", "judge.validation", "quantize.simplify.intervals", "quantize.simplify.rescales", "quantize.coverage", "quantize.floating", "read.builder",
    "read.importer",
}  # fmt: skip
"""The modules with rewrites that match one operator; all others have to use a trait."""


def test_few_modules_match_an_operator() -> None:
    """A module joins MATCHING only for a rewrite that means one operator; one that left it is removed."""
    calls = {module_of(path) for path, text in TEXTS.items() if re.search(r"(?<!def )\bis_a\(", text)}
    assert calls == MATCHING


def test_params_have_a_type() -> None:
    """A function of the params `p` names their dataclass, so that mypy knows their fields."""
    for path, node in nodes():
        given = [*node.args.args, *node.args.kwonlyargs] if isinstance(node, ast.FunctionDef) else []
        untyped = [a for a in given if a.arg == "p" and isinstance(a.annotation, ast.Name) and a.annotation.id == "Any"]
        assert not untyped, f"{path}:{node.lineno} takes params of any type: name their dataclass"


LONGEST_FUNCTION, LONGEST_FILE = 60, 600
"""The most lines of a function, which then fits on a screen, and of a file, which then is about one thing."""


def test_functions_and_files_are_short() -> None:
    for path, text in TEXTS.items():
        assert len(text.splitlines()) <= LONGEST_FILE, f"{path} has too many lines: split it by meaning"
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_every_word_of_a_kernel_file_is_known() -> None:
    """A file is named after its op, how it works, and its core; the words for how are in the glossary."""
    folder = ROOT / "runtime_c/kernels"
    used = {word.removesuffix("3x3") for path in folder.rglob("*.c") for word in path.stem.split("_")}
    ops_words = {word for name in kernel_ops() for word in name.split("_")} | {name.lower() for name in importers()}
    cores = {path.name for path in folder.iterdir()}
    glossary = (ROOT / "docs/glossary.md").read_text("utf-8")
    explained = {w for row in re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE) for w in re.split(r"[ ,]+", row)}
    unknown = {word for word in used - ops_words - cores if word not in explained}
    assert not unknown, f"docs/glossary.md does not explain {sorted(unknown)}"


CORES = ("kernels.dsp", "kernels.mve", "kernels.thumb", "kernels.x86")


def test_only_the_kernels_of_a_core_know_it() -> None:
    for path, found in imports().items():
        mine = module_of(path)
        if mine.startswith("kernels."):
            continue
        cores = {within(module, CORES) for module in found} - {None, within(mine, CORES)}
        assert not cores, f"{mine} names {cores}: kernels are found by registry.kernel_ops()"
        assert not re.search(r"\bisa=\"", TEXTS[path]), f"{mine} lists a kernel of a core"


BESIDE = {"helpers", "flows", "fuzz", "repository", "vectors"}
"""Folders of tests/ that mirror no package: shared code, whole networks, fuzzers, the checkout itself, frames."""


def test_the_tests_mirror_the_packages() -> None:
    tests = ROOT / "tests"
    assert not list(tests.glob("test_*.py")), "a test lies in the folder of the package that it tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("*.py") if path.parent != tests}
    strays = [f.as_posix() for f in folders if f.parts[0] not in BESIDE and not (PACKAGE / f).is_dir()]
    strays = [f for f in strays if not (PACKAGE / f).with_suffix(".py").is_file()]
    assert not strays, f"tests/ has {strays}, which glowembed/ has not"


def kernel_files() -> set[str]:
    """The files that kernels name, in runtime_c/kernels."""
    return {k.file for op in kernel_ops().values() for k in op.kernels if k.generated is None}


def test_every_kernel_has_its_file_and_every_file_its_kernel() -> None:
    folder = ROOT / "runtime_c" / "kernels"
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*.c")}
    assert kernel_files() == files


def test_a_kernel_file_defines_one_kernel_and_prefixes_its_helpers() -> None:
    for file in sorted(kernel_files()):
        text, stem = (ROOT / "runtime_c" / "kernels" / file).read_text("ascii"), Path(file).stem
        functions = re.findall(r"^static (?:inline )?[\w ]+?\*?(\w+)\(", text, re.MULTILINE)
        assert functions.count(f"ge_{stem}") == 1, f"{file} defines {functions}"
        assert all(f == f"ge_{stem}" or f.startswith(f"{stem}_") for f in functions), f"{file} defines {functions}"
        macros = re.findall(r"^#define (\w+)", text, re.MULTILINE)
        assert all(macro.startswith(f"{stem.upper()}_") for macro in macros), f"{file} defines {macros}"
        assert not re.search(r"^\s*#\s*if(?!ndef GE_)", text, re.MULTILINE), f"{file}: no #if in a kernel"


@pytest.mark.parametrize("name", ["csource", "kernels"])
def test_no_regular_expression_reads_c(name: str) -> None:
    """Variants of a kernel are made by #define and #include, so that its file goes into a bundle unchanged."""
    text = (PACKAGE / "emit" / f"{name}.py").read_text("utf-8")
    assert not re.search(r"^\s*(import|from) re\b", text, re.MULTILINE)


def test_every_onnx_operator_has_one_importer() -> None:
    kinds = [kind for op in ops().values() for kind in op.onnx]
    assert len(kinds) == len(set(kinds))
