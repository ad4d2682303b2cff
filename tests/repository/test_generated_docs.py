"""The generated documents say what the code says."""

import draw_architecture
import generate_docs
import pytest
from checkout import ROOT


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


def test_a_picture_draws_only_the_arrows_that_no_longer_path_implies() -> None:
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert draw_architecture.reduced(graph) == {"a": ["b", "d"], "b": ["c"], "c": [], "d": ["c"]}
    assert draw_architecture.rows(graph) == {"a": 0, "b": 1, "c": 2, "d": 1}


def test_every_arrow_of_the_picture_goes_down() -> None:
    graph = draw_architecture.imports()
    row = draw_architecture.rows(graph)
    assert all(row[name] < row[other] for name, to in graph.items() for other in to)
