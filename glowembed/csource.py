"""The C text of a kernel. In: a Kernel and the folder runtime_c. Out: its source, with the requantization of its op.

A kernel with instances is a C file whose layer constants are #defines; an instance has its own numbers there, and its
names end in them.

A kernel in another mode is its portable file with other names: `ge_requantize` becomes `ge_requantize_<mode>`, and all
that the file defines ends in the mode too. So there is one source, no branch at run time, and a bundle may hold both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from glowembed.op import Kernel


def kernel_source(kernel: Kernel, runtime_c: Path, params: Any = None) -> str:
    """The text of the file that defines `kernel.symbol_for(params)`; without params, the file as it is."""
    text = (runtime_c / "kernels" / kernel.file).read_text("ascii")
    if kernel.instance is not None and params is not None:
        return _instance(kernel, text, params)
    if not kernel.template:
        return text
    mode = kernel.symbol.removeprefix(f"{kernel.template}_")
    stem = kernel.template.removeprefix("ge_")
    text = re.sub(rf"\b((?:ge_)?{stem})(?=_|\b)", rf"\1_{mode}", text)
    text = re.sub(r"\b(ge_requantize(?:_each)?)\b", rf"\1_{mode}", text)
    own = '#include "ge_fixedpoint.h"\n'
    return text.replace(own, f'{own}#include "ge_requantize_{mode}.h"\n')


def _instance(kernel: Kernel, text: str, params: Any) -> str:
    stem, own = kernel.symbol.removeprefix("ge_"), kernel.symbol_for(params).removeprefix("ge_")
    assert kernel.instance is not None
    for name, number in kernel.instance(params).items():
        define = rf"^#define {stem.upper()}_{name} \S+"
        assert re.search(define, text, re.MULTILINE), f"{kernel.file} does not #define {name}"
        text = re.sub(define, f"#define {stem.upper()}_{name} {number}", text, flags=re.MULTILINE)
    text = re.sub(rf"\b((?:ge_)?){stem}(?=_|\b)", rf"\g<1>{own}", text)
    return re.sub(rf"\b{stem.upper()}_", f"{own.upper()}_", text)
