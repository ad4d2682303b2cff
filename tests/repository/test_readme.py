"""The C of the README compiles with a bundle of the included example, as firmware would compile it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import glowembed

FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-c", "-o", "/dev/null"]


@pytest.mark.cc
def test_ten_lines_of_firmware(root: Path, digits: Path, tmp_path: Path) -> None:
    options = glowembed.CompileOptions(target="x86-64", name="net")
    glowembed.compile_model(digits / "model.onnx", tmp_path / "net", options, data=digits / "data.npz")
    (firmware,) = re.findall(r"```c\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    source = tmp_path / "firmware.c"
    source.write_text(f"#include <stdint.h>\nvoid read_camera(int8_t *image);\nint classify(void);\n{firmware}")
    done = subprocess.run(["gcc", *FLAGS, f"-I{tmp_path / 'net'}", source], capture_output=True, text=True)
    assert done.stderr == ""
