"""Makes the C text of a kernel. In: a Kernel. Out: its file, with the names, numbers and headers of this variant.

A kernel file compiles as it stands, and its code is never changed. Macros make the variants of a file, and this module
sets them as a programmer would:

- names: an instance or a law has separate functions, `#define ge_conv2d_s8 ge_conv2d_s8_glow`;
- numbers and types: the `#define` lines at the head of the file, `#define CONV2D_STRIP_S8_DSP_STEPS 32`, get the values of the
  instance;
- the types of elements: the kernel includes `element_s16.h` where its file includes `element_s8.h`;
- the law: the kernel includes `ge_law_glow.h` where its file includes `ge_law.h`; both define the same names. Such
  a header has no include guard, because each kernel defines its words anew.

All macros of a kernel are undefined after it, so that a bundle may contain any number of variants. The text of a kernel
with levels (graph/isa.py) is emitted once for each level, with a function that calls the right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import UsageError
from glowembed.graph import own
from glowembed.graph.cstruct import struct_name
from glowembed.graph.isa import Level
from glowembed.graph.op import Kernel, KernelOp, in_mode
from glowembed.graph.registry import levels
from glowembed.law.modes import MODES

INCLUDE = '#include "'
DEFINE = "#define "
LAW = "_law"
NOT_OF_NAMES = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
KEPT_TEXTS = 512
"""How many texts of kernels and headers are remembered with their names, which each variant of a kernel asks for again."""


def kernel_source(kernel: Kernel, params: Any = None) -> str:
    """The text that defines `kernel.symbol_for(params)`. Without params, an instance has the numbers of the file."""
    if kernel.generated is not None:
        return _calls_at_level(kernel.generated(params), kernel.isa)
    path = _file(kernel)
    numbers: dict[str, object] = dict(kernel.words)
    symbol = kernel.symbol
    if kernel.instance is not None and params is not None:
        symbol = kernel.symbol_for(params)
        numbers |= kernel.instance(params)
    lines = [
        _of_law(_included(line, kernel), kernel.law) if line.startswith(INCLUDE) else line
        for line in path.read_text("ascii").splitlines()
    ]
    _set_numbers(lines, path, numbers)
    text = "\n".join(lines)
    head = 1 + max((i for i, line in enumerate(lines) if line.startswith(INCLUDE)), default=-1)
    names = _names(text, path.stem, symbol.removeprefix("ge_"), kernel.isa)
    if names:
        names = [f"/* {symbol} is {path.parent.name}/{path.name} with these names and numbers. */", *names]
        lines[head:head] = ["", *names]
    ends = [
        f"#undef {name}" for name in sorted({*_defined(text, kernel.isa), *(line.split()[1] for line in names[1:])})
    ]
    return "\n".join([*lines, *(["", *ends] if ends else [])]) + "\n"


def _file(kernel: Kernel) -> Path:
    """The C file of a kernel. Raises UsageError if a kernel of the user has none."""
    path = own.kernel_file(kernel.file) or resources.runtime_c() / "kernels" / kernel.file
    if not path.is_file():
        raise UsageError(
            f"the kernel {kernel.symbol} has no C file: {own.folder() or path.parent} holds no {path.name}"
        )
    return path


def _included(line: str, kernel: Kernel) -> str:
    """The #include line with the kernel's header if it includes words that the kernel replaces; any other unchanged."""
    header = kernel.headers.get(included(line))
    return line if header is None else f'{INCLUDE}{header}"'


def _of_law(line: str, law: str) -> str:
    """The #include line with the header of this law if it includes ge_law.h or ge_law_<law>.h; any other unchanged."""
    if law == "default":
        return line
    header = included(line)
    before, found, behind = header.partition(LAW)
    if not found or behind not in {".h", *(f"_{mode}.h" for mode in MODES)}:
        return line
    return f'{INCLUDE}{in_mode(before + LAW, law)}.h"'


def _set_numbers(lines: list[str], path: Path, numbers: dict[str, object]) -> None:
    """Set the values of #define lines. A value is one word; the rest of the line is a comment."""
    prefix = f"{DEFINE}{path.stem.upper()}_"
    places = [i for i, line in enumerate(lines) if line.startswith(prefix)]
    for name, number in numbers.items():
        start = f"{prefix}{name} "
        mine = [i for i in places if lines[i].startswith(start)]
        assert len(mine) == 1, f"{path.name} has {len(mine)} lines {start.strip()}"
        _, _, comment = lines[mine[0]].removeprefix(start).partition(" ")
        lines[mine[0]] = f"{start}{number} {comment}".rstrip()


def _names(text: str, stem: str, symbol: str, isa: str) -> list[str]:
    """A #define for each name of the file (these begin with the file's name), if the kernel has another name or
    levels.
    """
    if stem == symbol and isa not in levels():
        return []
    found = (name for name in identifiers(text) if not name.endswith("_params"))
    mine = sorted(name for name in found if f"{name}_".startswith((f"{stem}_", f"ge_{stem}_")))
    renamed = {name: name.replace(stem, symbol, 1) for name in mine}
    return [f"{DEFINE}{name} {_at_level(new, isa) if isa in levels() else new}" for name, new in renamed.items()]


def _calls_at_level(text: str, isa: str) -> str:
    """The text of a generated kernel, in which its own name and those of kernels that it calls belong to the current
    level.
    """
    if isa not in levels():
        return text
    found = (name for name in identifiers(text) if f"_{isa}_" in f"{name}_" and not name.startswith(f"ge_{isa}_"))
    mine = sorted(found)
    defines = "".join(f"{DEFINE}{name} {_at_level(name, isa)}\n" for name in mine)
    return f"{defines}{text}" + "".join(f"#undef {name}\n" for name in mine)


def _at_level(name: str, word: str) -> str:
    """A name with an ISA word as a name of the current level: GE_X86_LEVEL(ge, _dot) for ge_x86_dot."""
    before, _, behind = name.partition(f"_{word}")
    return f"GE_{word.upper()}_LEVEL({before}, {behind})"


def _defined(text: str, core: str) -> list[str]:
    """The macros that a text defines, and those of the headers of words that it includes."""
    words = (words_of(line, core) for line in text.splitlines() if line.startswith(INCLUDE))
    return [*macros(text), *(name for header in words if header is not None for name in _defined(header, core))]


@lru_cache(KEPT_TEXTS)
def macros(text: str) -> tuple[str, ...]:
    """The names of the macros that a text defines, without include guards."""
    found = (line.removeprefix(DEFINE).partition(" ")[0] for line in text.splitlines() if line.startswith(DEFINE))
    return tuple(name.partition("(")[0] for name in found if not name.endswith("_H"))


@lru_cache(KEPT_TEXTS)
def identifiers(text: str) -> frozenset[str]:
    """The words of a text outside comments and #include lines."""
    code = "\n".join(line for line in without_comments(text).splitlines() if not line.startswith(INCLUDE))
    return frozenset(code.translate(NOT_OF_NAMES).split())


def without_comments(text: str) -> str:
    """The text without its comments. No string in the runtime contains the beginning of a comment."""
    first, *others = text.split("/*")
    return first + "".join(other.partition("*/")[2] for other in others)


def included(line: str) -> str:
    """The header of an #include line, or "" for any other line."""
    return line.removeprefix(INCLUDE).partition('"')[0] if line.startswith(INCLUDE) else ""


def words_of(line: str, core: str) -> str | None:
    """The text of the header that this line of a core's kernel includes, if it is a header of words (one without an
    include guard); else None.
    """
    header = included(line)
    return None if not header or header == "ge_params.h" else _words(header, core)


@cache
def _words(header: str, core: str) -> str | None:
    """The text of a header that a core's kernel includes, or None if it has an include guard."""
    text = header_text(header, core)
    return None if f"{DEFINE}{Path(header).stem.upper()}_H" in text.splitlines() else text


@cache
def header_text(name: str, core: str = "") -> str:
    """The text of a header that a kernel of a core includes by this name."""
    return resources.kernel_header(name, core).read_text("ascii")


def prototype(op: KernelOp[Any], kernel: Kernel, symbol: str, count: int) -> str:
    """The declaration of a kernel's function with this many inputs; it must not be inlined."""
    return f"static GE_NOINLINE void {symbol}({', '.join(_parameters(op, kernel, count))});\n"


def _parameters(op: KernelOp[Any], kernel: Kernel, count: int = 0) -> list[str]:
    """The signature of op.KernelOp."""
    inputs = [f"in{i}" for i in range(count)] if op.variadic else op.inputs
    parameters = [f"const {struct_name(op.params)} *p", *(f"const ge_rows *{tensor}" for tensor in inputs)]
    parameters += [f"const {ctype} *{name}" for name, ctype in kernel.ctypes(op).items()]
    return [*parameters, "const ge_rows *out", "int32_t first_row", "int32_t last_row", "void *scratch"]


def level_names(word: str, chosen: Sequence[Level], texts: Iterable[str]) -> list[str]:
    """A #define for each name of an ISA word with levels: ge_x86_dot is GE_X86_LEVEL(ge, _dot), which each level defines."""
    shared = identifiers(header_text(f"ge_{word}.h"))
    helpers = _helpers(word, texts)
    own = {level.instead[h] for level in chosen for h in helpers if h in level.instead}
    headers = sorted({*helpers, *own, *(header for level in chosen for header in level.headers)})
    every = [*texts, *(header_text(header) for header in headers)]
    own_names = {line.split()[1] for text in texts for line in text.splitlines() if line.startswith(DEFINE)}
    found = {name for text in every for name in identifiers(text) if f"_{word}_" in f"{name}_"} - shared - own_names
    level = f"GE_{word.upper()}_LEVEL"
    head = f"/* The names of kernels with levels: {level}, which each level defines, puts its own word into them. */"
    return [head, *(f"{DEFINE}{name} {_at_level(name, word)}" for name in sorted(found))]


def level_macros(level: Level) -> Mapping[str, str]:
    """The macros of the headers of a level, with their values. Those of lists, LIST(T), are called LIST."""
    texts = (without_comments(header_text(header)).replace("\\\n", "") for header in level.headers)
    lines = (line.removeprefix(DEFINE) for text in texts for line in text.splitlines() if line.startswith(DEFINE))
    split = (line.partition(" ") for line in lines)
    return {name.removesuffix("(T)"): value.strip() for name, _, value in split}


def _with_values(text: str, values: Mapping[str, str]) -> str:
    """The text with these values of macros."""
    lines = iter(text.splitlines())
    found = []
    for line in lines:
        name = line.removeprefix(DEFINE).partition(" ")[0] if line.startswith(DEFINE) else ""
        value = values.get(name.removesuffix("(T)"))
        while value is not None and line.endswith("\\"):
            line = next(lines)
        found.append(line if value is None else f"{DEFINE}{name} {value}".rstrip())
    return "\n".join([*found, ""])


def level_source(word: str, level: Level, texts: Sequence[str], values: Mapping[str, str] | None = None) -> list[str]:
    """Kernels whose names contain an ISA word with levels, and the headers that they include, for one level. values:
    macros of the level's headers that get other values.

    The names become ge_avx2_dot and ge_conv2d_s8_avx2 (`level_names`). The macros of the level are undefined after
    them.
    """
    portable = levels()[word][0].headers
    headers = [_with_values(header_text(header), values) if values else header_text(header) for header in level.headers]
    wanted = (level.instead.get(h, h) for h in sorted(_helpers(word, texts) - set(portable)))
    helpers = [header_text(h) for h in wanted]
    parts = [without_own_headers(part, word) for part in (*headers, *helpers, *texts)]
    ends = sorted({name for text in (level.defines(word), *headers) for name in macros(text)})
    return [f'{INCLUDE}ge_{word}.h"\n{level.defines(word)}', *parts, "".join(f"#undef {name}\n" for name in ends)]


def level_includes(word: str, texts: Sequence[str]) -> str:
    """The #include lines, of kernels and of headers with the ISA word, for headers that are the same at every level."""
    headers = (header_text(name) for name in sorted(_helpers(word, texts)))
    lines = (line for text in (*texts, *headers) for line in without_own_headers(text, word).splitlines())
    return "\n".join(line for line in lines if line.startswith(INCLUDE))


def _helpers(word: str, texts: Iterable[str]) -> set[str]:
    """The headers with an ISA word in their names that kernels include."""
    return {header for text in texts for header in _headers(text) if header.startswith(f"ge_{word}_")}


@lru_cache(KEPT_TEXTS)
def _headers(text: str) -> frozenset[str]:
    """The headers that a text includes."""
    return frozenset(included(line) for line in text.splitlines() if line.startswith(INCLUDE))


@lru_cache(KEPT_TEXTS)
def without_own_headers(text: str, word: str) -> str:
    """The text without its #include lines of headers with an ISA word in their names, which each level has."""
    own = (f"{INCLUDE}ge_{word}_", f'{INCLUDE}ge_{word}.h"')
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(own))


def of_level(symbol: str, word: str, level: Level) -> str:
    """The name of a kernel, or of one of its words, at this level."""
    return symbol.replace(f"_{word}", f"_{level.word}", 1)


def dispatcher(word: str, chosen: Sequence[Level], op: KernelOp[Any], kernel: Kernel) -> str:
    """A function with the kernel's own name that calls the kernel of the level in use. chosen: the existing levels,
    portable C first.
    """
    parameters = _parameters(op, kernel)
    names = ", ".join(parameter.replace("*", " ").split()[-1] for parameter in parameters)
    calls = {level.word: f"{of_level(kernel.symbol, word, level)}({names});" for level in chosen}
    portable = calls.pop(chosen[0].word)
    upper = word.upper()
    cases = [
        f"    case GE_{upper}_{w.upper()}:\n        {call}\n        break;\n" for w, call in reversed(calls.items())
    ]
    return (
        f"static void {kernel.symbol}({', '.join(parameters)}) {{\n    switch (ge_{word}_level()) {{\n"
        f"#if GE_{upper}_LEVELS\n{''.join(cases)}#endif\n"
        f"    default:\n        {portable}\n        break;\n    }}\n}}\n"
    )
