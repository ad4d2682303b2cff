"""Write the files that let an editor read the C sources in place: the params of all ops, and the flags of each folder.

build/editor/ge_params.h has the params structs of all ops; a bundle has only those that it uses. compile_flags.txt, at the root of
the checkout and in each folder of kernels, tells clangd where headers are and which core a folder is for. git ignores all of them.
"""

from __future__ import annotations

from pathlib import Path

from glowembed import resources
from glowembed.graph.cstruct import c_struct, struct_name
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import Target, load_target, target_names

ROOT = Path(__file__).resolve().parents[1]
PARAMS = Path("build", "editor", "ge_params.h")
HOST = "x86-64"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wno-unused-function", "-Wno-overlength-strings")
NEWLIB = ("/usr/include/newlib", "/usr/lib/arm-none-eabi/include")


def params_header() -> str:
    """Each struct once, in the order of names."""
    structs = {struct_name(op.params): c_struct(op.params) for op in kernel_ops().values() if op.kernels}
    lines = ["#ifndef GE_PARAMS_H", "#define GE_PARAMS_H", '#include "ge.h"']
    lines += [structs[name] for name in sorted(structs)]
    return "\n".join([*lines, "#endif"]) + "\n"


def cores_of(folder: str) -> list[str]:
    """The ISA words whose kernels, or headers, lie in a folder of runtime_c/kernels; "" for portable C."""
    kernels = (kernel for op in kernel_ops().values() for kernel in op.kernels if kernel.generated is None)
    return sorted({kernel.isa for kernel in kernels if folder in (Path(kernel.file).parent.name, kernel.isa)})


def target_of(core: str) -> Target:
    """A target that has an ISA word: the first one, and the host for portable C."""
    found = (load_target(name) for name in target_names())
    return next(target for target in found if core in target.isa) if core else load_target(HOST)


def flags_of(core: str, root: Path = ROOT) -> list[str]:
    """The flags with which the target's compiler checks kernels: the core, and where headers are, its own folder first."""
    machine = [flag for flag in target_of(core).cflags if flag.startswith(("-m", "-std=", "--specs="))]
    return [
        *machine,
        *WARNINGS,
        *(f"-I{folder}" for folder in (*resources.kernel_folders(core), (root / PARAMS).parent)),
    ]


def _of_clang(core: str, root: Path) -> list[str]:
    """The flags for clang, which does not know from its own name what a cross compiler knows: core and C library."""
    if target_of(core).compiler != "arm-none-eabi-gcc":
        return flags_of(core, root)
    return ["--target=arm-none-eabi", *flags_of(core, root), *(f"-isystem{path}" for path in NEWLIB)]


def write(root: Path) -> None:
    """Write all of them below this folder, which is the checkout or, in tests, another one."""
    (root / PARAMS).parent.mkdir(parents=True, exist_ok=True)
    (root / PARAMS).write_text(params_header(), encoding="ascii")
    cores = {folder: cores_of(folder.name) for folder in resources.kernel_folders()}
    places = {folder.relative_to(ROOT): words[0] for folder, words in cores.items() if words}
    for place, core in {Path(): "", **places}.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / "compile_flags.txt").write_text("\n".join(_of_clang(core, root)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(ROOT)
