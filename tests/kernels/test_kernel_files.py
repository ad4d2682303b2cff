"""Every kernel file compiles as it stands, and all variants of all kernels go together into one file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import editor_files
import pytest

from glowembed import resources
from glowembed.emit.csource import kernel_source, level_names, level_source, macros
from glowembed.graph.op import Kernel
from glowembed.graph.registry import kernel_ops, levels

FOLDERS = [folder for folder in resources.kernel_folders() if editor_files.cores_of(folder.name)]
CORES = [(folder, core) for folder in FOLDERS if [*folder.glob("*.c")] for core in editor_files.cores_of(folder.name)]
WORDS = sorted({core for _, core in CORES})

pytestmark = [pytest.mark.cc, pytest.mark.arm_gcc]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `./glow setup` writes for editors."""
    folder = tmp_path_factory.mktemp("editor")
    editor_files.write(folder)
    return folder


def check(core: str, root: Path, files: list[Path]) -> None:
    """Read the files in one call of the compiler of this core, with warnings as errors."""
    compiler = editor_files.target_of(core).compiler
    command = [compiler, "-fsyntax-only", "-Werror", *editor_files.flags_of(core, root), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("folder", "core"), CORES, ids=lambda part: getattr(part, "name", part or "host"))
def test_every_kernel_file_compiles_as_it_stands(folder: Path, core: str, root: Path) -> None:
    check(core, root, sorted(folder.glob("*.c")))


def test_assembly_names_its_function_by_its_name() -> None:
    """A string would not follow the name of an instance, and the depth of the stack would miss its frame."""
    texts = {path: path.read_text("ascii") for folder in FOLDERS for path in folder.glob("*.[ch]")}
    assert not [path.name for path, text in texts.items() if 'GE_DSP_ENTER("' in text]


def test_assembly_gets_numbers_of_params_with_32_bits() -> None:
    """A bundle may store them in 8 or 16, and compilers leave the upper bits of such an operand as they please."""
    files = (file for folder in FOLDERS if folder.name != "x86" for file in sorted(folder.glob("*.[ch]")))
    bare = re.compile(r'"[a-z]"\((\w+->)*p->\w+\)|"r"\([a-z]+_\)')
    assert [f"{file.name}: {m[0]}" for file in files for m in bare.finditer(file.read_text())] == []


def test_clangd_finds_flags_and_params(root: Path) -> None:
    places = [Path(), *(folder.relative_to(editor_files.ROOT) for folder in FOLDERS)]
    flags = {place: (root / place / "compile_flags.txt").read_text().splitlines() for place in places}
    assert all(f"-I{(root / editor_files.PARAMS).parent}" in found for found in flags.values())
    assert "--target=arm-none-eabi" in flags[Path("runtime_c", "kernels", "dsp")]
    assert "typedef struct" in (root / editor_files.PARAMS).read_text()


def kernels_of(core: str) -> list[Kernel]:
    """One kernel for each symbol, in the order of their names."""
    found = {k.symbol: k for op in kernel_ops().values() for k in op.kernels if k.isa == core and k.generated is None}
    return [found[symbol] for symbol in sorted(found)]


@pytest.mark.parametrize("core", [core for core in WORDS if core not in levels()], ids=lambda core: core or "host")
def test_all_variants_go_together_into_one_file(core: str, root: Path, tmp_path: Path) -> None:
    """No variant leaves a macro defined, and no two define the same name."""
    kernels = kernels_of(core)
    texts = [kernel_source(kernel) for kernel in kernels]
    used = ", ".join(f"(void (*)(void)){kernel.symbol}" for kernel in kernels)
    left = "\n".join(f"#ifdef {name}\n#error {name} is left\n#endif" for name in sorted(set(macros("".join(texts)))))
    table = f"extern void (*const used[])(void);\nvoid (*const used[])(void) = {{{used}}};\n"
    (tmp_path / "all.c").write_text("\n".join([*texts, left, table]))
    check(core, root, [tmp_path / "all.c"])


@pytest.mark.parametrize("word", levels())
def test_all_levels_go_together_into_one_file(word: str, root: Path, tmp_path: Path) -> None:
    """The headers of levels are read again for each level, as in a bundle, which has them without include guards."""
    texts = [kernel_source(kernel) for kernel in kernels_of(word)]
    headers = resources.kernel_header(f"ge_{word}.h").parent.glob(f"ge_{word}_*.h")
    again = "".join(f"#undef {header.stem.upper()}_H\n" for header in sorted(headers))
    parts = [part for level in levels()[word] for part in (again, *level_source(word, level, texts))]
    (tmp_path / "all.c").write_text("\n".join([*level_names(word, levels()[word], texts), *parts]))
    check(word, root, [tmp_path / "all.c"])
