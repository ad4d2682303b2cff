"""Documents: the commands in them exist with their options and run as printed, and their links lead somewhere."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

from glowembed import commands
from glowembed.__main__ import app, main

GUIDES = ROOT / "docs" / "guides"
DOCUMENTS = sorted(
    path
    for folder in (ROOT, *(ROOT / name for name in ("docs", "boards", "examples")))
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
OF_ALL = {"-h", "--help", "--ops"}
"""The options of every command."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def lines(text: str) -> Iterator[list[str]]:
    """The words of each command line of glowembed in the blocks of a document."""
    for language, fenced, indented in BLOCK.findall(text):
        for line in (indented if language not in ("", "sh") else fenced or indented).replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("./glow run ")
            if line.startswith("glowembed "):
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_and_option_exists(path: Path) -> None:
    known = commands.listed()
    for name, *words in lines(path.read_text("utf-8")):
        if name.startswith("-") or not name.isidentifier():
            continue
        assert name in known, f"{path.name}: there is no command {name!r}"
        command = commands.loaded(name, app.rich_markup_mode)
        options = {word for option in command.params for word in (*option.opts, *option.secondary_opts)} | OF_ALL
        for word in words:
            if word.startswith("-") and word != "-":
                assert word.partition("=")[0] in options, f"{path.name}: glowembed {name} has no option {word}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file(path: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.DOTALL)):
        if "://" in link or link.startswith(("#", "mailto:")):
            continue
        assert (path.parent / link.partition("#")[0]).exists(), f"{path.name}: {link} leads nowhere"


SLOW = ("try", "tune")
"""Commands that other tests run."""


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_the_commands_of_the_guides_run_as_printed(
    tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(digits / "model.onnx", tmp_path / "net.onnx")
    shutil.copy(digits / "data.npz", tmp_path / "samples.npz")
    monkeypatch.chdir(tmp_path)
    ran = 0
    for name in ("from-pytorch", "accuracy", "fitting", "speed", "over-the-air"):
        for words in lines((GUIDES / f"{name}.md").read_text("utf-8")):
            if words[0] in SLOW or "--port" in words or "precision.yaml" in words:
                continue
            assert main(words) == 0, f"{name}.md: glowembed {shlex.join(words)}\n{capsys.readouterr()}"
            ran += 1
    assert ran >= 10


@pytest.mark.skipif(shutil.which("mkdocs") is None, reason="mkdocs is not installed (docs/requirements.txt)")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        ["mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "guides/from-pytorch.html" in page
