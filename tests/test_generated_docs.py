"""The generated documents say what the code says."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
assert SPEC is not None
assert SPEC.loader is not None
generate_docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate_docs)


@pytest.mark.parametrize("name", generate_docs.DOCUMENTS)
def test_a_generated_document_is_not_stale(name: str) -> None:
    found = (ROOT / "docs" / name).read_text("utf-8")
    assert found == generate_docs.DOCUMENTS[name](), "run: ./glow run python scripts/generate_docs.py"


def test_every_operator_and_kernel_is_listed() -> None:
    operators, kernels = generate_docs.operators(), generate_docs.kernels()
    for kind in ("Conv", "MaxPool", "LeakyRelu", "Softmax"):
        assert f"\n| {kind} |" in operators
    for file in (ROOT / "runtime_c" / "kernels").rglob("*.c"):
        assert file.stem in kernels, file.name
