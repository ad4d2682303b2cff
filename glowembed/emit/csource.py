"""Makes the C text of a kernel. In: a Kernel. Out: its source, with the requantization of its op.

A kernel with instances is a C file whose layer constants are #defines; an instance has its own numbers there, and its
names end in them. Several kernels may be instances of one file, their `template`; where the law is one of the numbers,
the header with the text of that law is included too.

A kernel in another mode is its file with other names: `ge_requantize` becomes `ge_requantize_<mode>`, the law of
ge_mve_law.h that of ge_mve_law_<mode>.h, and all that the file defines ends in the mode too. So there is one source, no
branch at run time, and a bundle may hold both. In the same way, `w16` is the kernel whose only int8 are weights, with
weights of int16.

A kernel with levels (levels.py) is one text that is emitted once for each of them, and a function that calls one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import UsageError
from glowembed.graph import own
from glowembed.graph.cstruct import struct_name
from glowembed.graph.op import Kernel, KernelOp
from glowembed.kernels.levels import LEVELS, Level
from glowembed.law.fixedpoint import MODES

WIDE_WEIGHTS = "w16"


def kernel_source(kernel: Kernel, params: Any = None) -> str:
    """The text of the file that defines `kernel.symbol_for(params)`; without params, the file as it is."""
    if kernel.generated is not None:
        return kernel.generated(params)
    text = _file(kernel).read_text("ascii")
    if kernel.instance is None and not kernel.template:
        return text
    text = _named(kernel, text, params)
    variant = kernel.symbol.removeprefix(f"{kernel.template}_")
    if variant == WIDE_WEIGHTS:
        return re.sub(r"\bint8(?=_t\b|\b)", "int16", text)
    return _in_law(text, variant) if variant in MODES else text


def _file(kernel: Kernel) -> Path:
    """The C file of a kernel. Raises UsageError if one of the user's own has none."""
    path = own.kernel_file(kernel.file) or resources.runtime_c() / "kernels" / kernel.file
    if not path.is_file():
        raise UsageError(
            f"the kernel {kernel.symbol} has no C file: {own.folder() or path.parent} holds no {path.name}"
        )
    return path


def _named(kernel: Kernel, text: str, params: Any) -> str:
    """The text with the names and the numbers of the kernel, and of its instance for these params."""
    stem, own = Path(kernel.file).stem, kernel.symbol.removeprefix("ge_")
    if kernel.instance is not None and params is not None:
        own = kernel.symbol_for(params).removeprefix("ge_")
        numbers = kernel.instance(params)
        for name, number in numbers.items():
            define = rf"^#define {stem.upper()}_{name} \S+"
            assert re.search(define, text, re.MULTILINE), f"{kernel.file} does not #define {name}"
            text = re.sub(define, f"#define {stem.upper()}_{name} {number}", text, flags=re.MULTILINE)
        if (law := numbers.get("LAW")) is not None:
            common = '#include "ge_isa_dsp_law.h"\n'
            text = text.replace(common, f'{common}#include "ge_isa_dsp_law_{MODES[law]}.h"\n')
    text = re.sub(rf"\b((?:ge_)?){stem}(?=_|\b)(?!_params\b)", rf"\g<1>{own}", text)
    return re.sub(rf"\b{stem.upper()}_", f"{own.upper()}_", text)


def _in_law(text: str, mode: str) -> str:
    """The text with the requantization of a mode."""
    text = text.replace("ge_mve_law.h", f"ge_mve_law_{mode}.h").replace("GE_MVE_LAW_", f"GE_MVE_LAW_{mode.upper()}_")
    if "ge_requantize" not in text:
        return text
    text = re.sub(r"\b(ge_requantize(?:_each)?)\b", rf"\1_{mode}", text)
    own = '#include "ge_fixedpoint.h"\n'
    return text.replace(own, f'{own}#include "ge_requantize_{mode}.h"\n')


def prototype(op: KernelOp, kernel: Kernel, symbol: str, count: int) -> str:
    """The declaration of a kernel's function with so many inputs, which is not to be inlined."""
    return f"static GE_NOINLINE void {symbol}({', '.join(_parameters(op, kernel, count))});\n"


def _parameters(op: KernelOp, kernel: Kernel, count: int = 0) -> list[str]:
    """The signature of op.KernelOp."""
    inputs = [f"in{i}" for i in range(count)] if op.variadic else op.inputs
    parameters = [f"const {struct_name(op.params)} *p", *(f"const ge_rows *{tensor}" for tensor in inputs)]
    parameters += [f"const {ctype} *{name}" for name, ctype in kernel.ctypes(op).items()]
    return [*parameters, "const ge_rows *out", "int32_t first_row", "int32_t last_row", "void *scratch"]


# ------------------------------------------------------------------------------------------------ levels


def level_source(word: str, level: Level, texts: Sequence[str]) -> list[str]:
    """Kernels in the names of an ISA word with levels, and what they include, in those of one level.

    ge_x86_dot becomes ge_avx2_dot, and the kernels ge_conv2d_s8_avx2.
    """
    portable = LEVELS[word][0].headers
    helpers = {h for text in texts for h in re.findall(rf'^#include "(ge_{word}_\w+\.h)"', text, re.MULTILINE)}
    headers = [*level.headers, *sorted(helpers - set(portable))]
    parts = [*(resources.kernel_header(header).read_text("ascii") for header in headers), *texts]
    own = re.compile(rf'^#include "ge_{word}(_\w+)?\.h"\n', re.MULTILINE)
    return [f'#include "ge_{word}.h"\n{level.defines}', *(of_level(own.sub("", part), word, level) for part in parts)]


def of_level(text: str, word: str, level: Level) -> str:
    """A text or a symbol with the level's word in the place of the ISA word."""
    text = re.sub(rf"(?<=_){word}(?=_|\b)", level.word, text)
    return re.sub(rf"(?<=_){word.upper()}(?=_|\b)", level.word.upper(), text)


def dispatcher(word: str, op: KernelOp, kernel: Kernel) -> str:
    """A function under the kernel's own name that calls the one of the level in use."""
    parameters = _parameters(op, kernel)
    names = ", ".join(re.split(r"[ *]", p)[-1] for p in parameters)
    calls = {level.word: f"{of_level(kernel.symbol, word, level)}({names});" for level in LEVELS[word]}
    portable = calls.pop(LEVELS[word][0].word)
    upper = word.upper()
    cases = [
        f"    case GE_{upper}_{w.upper()}:\n        {call}\n        break;\n" for w, call in reversed(calls.items())
    ]
    return (
        f"static void {kernel.symbol}({', '.join(parameters)}) {{\n    switch (ge_{word}_level()) {{\n"
        f"#if GE_{upper}_LEVELS\n{''.join(cases)}#endif\n"
        f"    default:\n        {portable}\n        break;\n    }}\n}}\n"
    )
