"""What the depthwise kernels of runtime_c/kernels/mve/ge_mve_lines.h have in common: when they apply, their scratch and cost.

In: params of depthwise convolutions. Out: reasons, bytes and cycles.
"""

from __future__ import annotations

from glowembed.ops.conv_wide import Conv2dS16Params
from glowembed.ops.float32 import Conv2dF32Params
from glowembed.records import dataclass

Params = Conv2dS16Params | Conv2dF32Params

PITCH = 40
"""The elements from line to line of a plane (GE_MVE_LINES_PITCH)."""

LINES = 16
"""The lines of outputs that are computed from one plane (GE_MVE_LINES_MAX)."""

PART = 160
"""The bytes of a ge_mve_lines_part, which is in scratch and not on the stack."""

STEP = 9362
"""The largest number of elements from input to input of a row."""


def why_not(p: Params) -> str | None:
    """The reason why the kernels do not compute a depthwise convolution."""
    window = (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w, p.stride_h, p.stride_w)
    if window != (3, 3, 1, 1, 1, 1):
        return "the window is not 3x3 with stride 1"
    if p.in_c != p.out_c:
        return "there are more channels out than in"
    return f"there are {p.in_c} channels, it takes at most {STEP}" if p.in_c > STEP else None


def scratch(p: Params, bytes_of_element: int) -> int:
    """The bytes of a part and of its plane, whichever way the lines go, for this many rows or fewer."""
    return PART + bytes_of_element * PITCH * (min(max(p.out_h, p.out_w), LINES) + 2)


@dataclass(frozen=True)
class Cycles:
    """The cycles of the parts of a kernel."""

    two: float
    """Of four outputs of two lines."""
    one: float
    """Of four outputs of one line."""
    gathered: float
    """Of one input."""


def rows_cost(p: Params, rows: int, cycles: Cycles) -> float:
    """The cycles of a call. Some of the rows may lie in slots, and are then computed along the rows."""
    lines, length = (p.out_w, rows) if p.out_w < rows == p.out_h else (rows, p.out_w)
    bands, strips, fours = -(-lines // LINES), -(-length // (PITCH - 2)), -(-length // 4)
    pair, single = 30 * strips + cycles.two * fours, 20 * strips + cycles.one * fours
    gather = (lines + 2 * bands) * (12 * strips + cycles.gathered * (length + 2 * strips))
    channel = lines // 2 * pair + lines % 2 * single + gather + 70 * bands * strips
    return float(p.out_c * channel + bands * strips * 900 + 100)
