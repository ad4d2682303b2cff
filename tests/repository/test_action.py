"""The script of action.yml does what the action promises, in the shell that runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from checkout import ROOT

GLOW = """#!/bin/sh
[ "$1" = run ] && shift
exec "$@"
"""
"""`./glow` where it is not installed."""


@pytest.mark.cc
@pytest.mark.parametrize("worse", [False, True])
def test_the_action(worse: bool, tmp_path: Path, digits: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    assert {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]} == set(step["env"].values())
    (tmp_path / "glow").write_text(GLOW)
    (tmp_path / "glow").chmod(0o755)
    model = {"model": str(digits / "model.onnx"), "data": str(digits / "data.npz")}
    (tmp_path / "my spec.yaml").write_text(yaml.safe_dump({"models": [model], "targets": ["generic"], "samples": 5}))
    (tmp_path / "base.json").write_text(json.dumps([{"model": "digits", "target": "generic", "arena": 1}]))
    given = {"SPEC": "my spec.yaml", "BASELINE": "base.json" if worse else "", "RESULTS": "out/of it"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **given, "PATH": path, "GITHUB_ACTION_PATH": str(tmp_path)}
    words = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (5 if worse else 0), done.stderr
    assert ("it may not be worse" in done.stdout) == worse
    assert {path.name for path in (tmp_path / "out/of it").glob("*.*")} == {"regress.json", "junit.xml", "page.html"}
