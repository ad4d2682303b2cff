"""Templates of bundles: the cache of compiled templates does not change the text."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from glowembed import resources
from glowembed.emit import render


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of templates that is empty."""
    monkeypatch.setattr(resources, "user_cache", lambda kind: tmp_path)
    render._environment.cache_clear()
    yield tmp_path
    render._environment.cache_clear()


def rendered(text: str) -> str:
    render._environment.cache_clear()
    environment = render._environment()
    environment.loader = jinja2.DictLoader({"t": text})
    return environment.get_template("t").render(x=5)


def test_a_template_is_compiled_once_and_again_when_it_changes(cache: Path) -> None:
    assert [rendered("a {{ x }}"), rendered("a {{ x }}"), rendered("b {{ x }}")] == ["a 5", "a 5", "b 5"]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("keep", [0, 5, 14, 20, 100], ids=lambda n: f"{n} bytes")
def test_a_damaged_file_is_made_again(cache: Path, keep: int) -> None:
    rendered("a {{ x }}")
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    assert rendered("a {{ x }}") == "a 5"
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_does_no_harm(cache: Path) -> None:
    cache.rmdir()
    cache.write_text("not a folder", encoding="ascii")
    assert rendered("a {{ x }}") == "a 5"
