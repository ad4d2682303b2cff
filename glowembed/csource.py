"""The C text of a kernel. In: a Kernel and the folder runtime_c. Out: its source, with the requantization of its op.

A kernel in another mode is its portable file with other names: `ge_requantize` becomes `ge_requantize_<mode>`, and all
that the file defines ends in the mode too. So there is one source, no branch at run time, and a bundle may hold both.
"""

from __future__ import annotations

import re
from pathlib import Path

from glowembed.op import Kernel


def kernel_source(kernel: Kernel, runtime_c: Path) -> str:
    """The text of the file that defines `kernel.symbol`."""
    text = (runtime_c / "kernels" / kernel.file).read_text("ascii")
    if not kernel.template:
        return text
    mode = kernel.symbol.removeprefix(f"{kernel.template}_")
    stem = kernel.template.removeprefix("ge_")
    text = re.sub(rf"\b((?:ge_)?{stem})(?=_|\b)", rf"\1_{mode}", text)
    text = re.sub(r"\b(ge_requantize(?:_each)?)\b", rf"\1_{mode}", text)
    own = '#include "ge_fixedpoint.h"\n'
    return text.replace(own, f'{own}#include "ge_requantize_{mode}.h"\n')
