"""The stack that a kernel needs on Arm cores, by gcc's own figures and with all functions that it calls."""

from __future__ import annotations

import subprocess
from collections.abc import Container
from pathlib import Path

import editor_files
import pytest

from glowembed import resources
from glowembed.emit.csource import kernel_source, prototype
from glowembed.graph.op import Kernel
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target
from glowembed.image import elf

MOST = 400
"""The bytes of stack that a kernel may need."""

CORES = [("cortex-m0", ("", "armv6m")), ("cortex-m3", ("armv7m",)), ("cortex-m4", ("dsp",)), ("cortex-m55", ("mve",))]

NEAR = {"ge_conv2d_part_s8_dsp", "ge_attention_s8_dsp"}
"""Kernels of Cortex-M4 that need nearly as much as they may. Compiled for other cores, they need up to 40 bytes more."""
FROM_OUTSIDE = {"ge_take_rows"}
"""It calls a function of the user, whose stack is not known."""


def built(target: str, words: tuple[str, ...], folder: Path, only: Container[str] = ()) -> tuple[Path, list[str]]:
    """An object file with the kernels of these ISA words in the default law, or some of them, as in a bundle, and their names."""
    core, texts = load_target(target), dict[str, str]()
    editor_files.write(folder)
    for op in kernel_ops().values():
        kernels: list[Kernel] = [k for k in op.kernels if k.isa in words and k.generated is None and k.law == "default"]
        for kernel in (k for k in kernels if not only or k.symbol in only):
            head = f"__attribute__((used)) {prototype(op, kernel, kernel.symbol, 2)}"
            texts[kernel.symbol] = f"{head}{kernel_source(kernel)}"
    names = sorted(texts.keys() - FROM_OUTSIDE)
    source = '#include "ge.h"\n#include "ge_params.h"\n' + "\n".join(texts[name] for name in names)
    (folder / "kernels.c").write_text(source)
    include = [f"-I{path}" for path in (*resources.kernel_folders(*core.isa), (folder / editor_files.PARAMS).parent)]
    command = [core.compiler, *core.cflags, *include, "-c", "kernels.c", "-o", "kernels.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "kernels.o", names


@pytest.mark.arm_gcc
@pytest.mark.parametrize(("target", "words"), CORES, ids=[target for target, _ in CORES])
def test_kernels_keep_within_the_stack(target: str, words: tuple[str, ...], tmp_path: Path) -> None:
    _keep_within_the_stack(*built(target, words, tmp_path))


@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m55"])
def test_related_cores_keep_within_the_stack(target: str, tmp_path: Path) -> None:
    _keep_within_the_stack(*built(target, ("dsp",), tmp_path, NEAR))


def _keep_within_the_stack(path: Path, names: list[str]) -> None:
    depths = elf.stack_depths([path], names)
    assert depths and None not in depths.values()
    found = {name: depth.path for name, depth in depths.items() if depth and depth.bytes > MOST}
    assert not found, "these kernels need too much stack"
