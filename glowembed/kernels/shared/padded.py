"""Convolution to fewer output channels than a kernel takes, by that kernel with additional channels, which are not copied.

In: a kernel of a core for conv2d that takes CHANNELS output channels and more. Out: the `Kernel` that calls it for layers
with fewer. The outputs of a row go through a line in scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from glowembed.graph.cstruct import struct_name
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, Kernel
from glowembed.graph.target import Target
from glowembed.ops.float32 import Conv2dF32Params
from glowembed.records import dataclass

CHANNELS = 4
"""The fewest output channels that the kernels take."""

ROW, PIXEL = 60, 14
"""The cycles that each row and each pixel take besides the convolution."""

PARAMS = 80
"""The bytes for the params of the convolution."""

ELEMENT = 4
"""The most bytes of an output."""


@dataclass(frozen=True)
class _Padded:
    """A kernel of `op`, whose outputs have this C type, for layers with fewer than CHANNELS channels."""

    kernel: Kernel
    op: str
    ctype: str

    def made(self) -> Kernel:
        return Kernel(
            f"{self.kernel.symbol}_padded",
            isa=self.kernel.isa,
            inner=self.kernel,
            inner_op=self.op,
            inner_params=lambda p: (_wide(p),),
            when=self.why_not,
            constants=self.kernel.constants,
            arrange=lambda constants, p: self.kernel.packed(_with_zeros(constants, p), _wide(p)),
            scratch=lambda p: PARAMS + CHANNELS * ELEMENT * p.out_w + self.kernel.scratch(_wide(p)),
            cost=self.cost,
            rows_cost=self.cycles,
            store="rows",
            generated=self.text,
            columns=False,
        )

    def why_not(self, node: Node, target: Target) -> str | None:
        p = node.params
        if p.groups > 1 or p.out_c >= CHANNELS:
            return f"it is for fewer than {CHANNELS} output channels of one group"
        constants = {name: const.materialize() for name, const in node.constants.items()}
        wide = {name: Const(array) for name, array in _with_zeros(constants, p).items()}
        return self.kernel.when(replace(node, op=self.op, params=_wide(p), constants=wide), target)

    def cycles(self, node: Node, target: Target, rows: int) -> float:
        p = replace(_wide(node.params), out_h=1)
        row = self.kernel.cost(replace(node, op=self.op, params=p), target).cycles
        return float(rows * (ROW + row + PIXEL * p.out_w))

    def cost(self, node: Node, target: Target) -> Cost:
        own = self.kernel.cost(replace(node, op=self.op, params=_wide(node.params)), target)
        return Cost(self.cycles(node, target, node.params.out_h), own.code + 150, own.shared)

    def text(self, p: Conv2dF32Params) -> str:
        """The function that calls the convolution for each row, with params in scratch."""
        kind = struct_name(type(p))
        ((stream, ctype),) = (self.kernel.constants or {}).items()
        parameters = (
            f"const {kind} *p, const ge_rows *x, const {ctype} *{stream}, const ge_rows *out, int32_t first_row, "
            "int32_t last_row, void *scratch"
        )
        lines = [
            f"/* {self.kernel.symbol} with {CHANNELS} output channels, of which those of the layer are copied. */",
            f"static void {self.kernel.symbol}_padded({parameters}) {{",
            f"    {kind} *const own = ({kind} *)scratch;",
            f"    {self.ctype} *const line = ({self.ctype} *)scratch + {PARAMS} / sizeof({self.ctype});",
            "    const ge_rows row = {line, NULL, 0};",
            "    *own = *p;",
            f"    own->out_c = {CHANNELS};",
            "    for (int32_t y = first_row; y < last_row; y++) {",
            f"        {self.ctype} *to = ({self.ctype} *)ge_row(out, y);",
            f"        const {self.ctype} *from = line;",
            f"        {self.kernel.symbol}(own, x, {stream}, &row, y, y + 1, line + {CHANNELS} * p->out_w);",
            "        for (int32_t column = 0; column < p->out_w; column++) {",
            "            for (int32_t channel = 0; channel < p->out_c; channel++) {",
            "                *to++ = from[channel];",
            "            }",
            f"            from += {CHANNELS};",
            "        }",
            "    }",
            "}\n",
        ]
        return "\n".join(lines)


def padded(kernel: Kernel, op: str, ctype: str) -> Kernel:
    """The kernel for layers with few output channels, which have this C type."""
    return _Padded(kernel, op, ctype).made()


def _wide(p: Conv2dF32Params) -> Conv2dF32Params:
    return replace(p, out_c=CHANNELS)


def _with_zeros(constants: Mapping[str, Array], p: Conv2dF32Params) -> Mapping[str, Array]:
    """The constants with zeros for the additional channels, whose axis is the first one."""
    more = CHANNELS - p.out_c
    return {name: np.pad(a, ((0, more), *[(0, 0)] * (a.ndim - 1))) for name, a in constants.items()}
