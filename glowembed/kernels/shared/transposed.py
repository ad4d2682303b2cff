"""Transposed convolution as ordinary convolutions, by kernels that a core has for these.

In: a kernel of a core for conv2d. Out: the `Kernel` for conv_transpose2d that calls it. Output rows whose numbers are equal
modulo the stride (a phase) are a convolution of the input with some rows of the weights. Its outputs are as many pixels
side by side as the horizontal stride, with zeros as weights where one of them does not see a column. So all phases are
convolutions of one size, which differ in their constants and in the padding above.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from glowembed.graph.cstruct import c_initialiser, struct_name
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, Kernel, in_mode, of_law
from glowembed.graph.target import Target
from glowembed.law.fixedpoint import WORDS
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.conv_transpose import ConvTranspose2dParams
from glowembed.records import dataclass

ROW = 40
"""The cycles that each row takes besides the convolution."""


@dataclass(frozen=True)
class _Axis:
    """One direction: output j * stride + phase is the sum over k of weight k times input j + (phase + pad - k * dilation) / stride,
    where this is a whole number.
    """

    taps: int
    stride: int
    dilation: int
    pad: int

    def shift(self, phase: int, tap: int) -> int | None:
        """The input that a tap reads, less j; None if it reads none."""
        at = phase + self.pad - tap * self.dilation
        return None if at % self.stride else at // self.stride

    def last(self, phase: int) -> int:
        """The last input that outputs of a phase could read, less j."""
        return (phase + self.pad) // self.stride

    @property
    def most(self) -> int:
        """The most inputs from the first to the last one that an output reads."""
        return (self.taps - 1) * self.dilation // self.stride + 1

    @property
    def first(self) -> int:
        """The first input that an output of any phase could read, less j; at most 0."""
        return min(0, -(-(self.pad - (self.taps - 1) * self.dilation) // self.stride))


class Phases:
    """The convolutions of a layer."""

    def __init__(self, p: ConvTranspose2dParams) -> None:
        self.p = p
        self.down = _Axis(p.kernel_h, p.stride_h, p.dilation_h, p.pad_top)
        self.across = _Axis(p.kernel_w, p.stride_w, p.dilation_w, p.pad_left)

    def why_not(self) -> str | None:
        """The reason why the layer is not made of such convolutions."""
        if self.p.groups > 1:
            return f"{self.p.groups} groups"
        if self.p.out_w % self.p.stride_w:
            return f"{self.p.out_w} columns are no multiple of a stride of {self.p.stride_w}"
        if self.down.last(self.p.stride_h - 1) >= self.down.most:
            return "more rows are cut off above than its windows have"
        return None

    @cached_property
    def params(self) -> tuple[Conv2dParams, ...]:
        """The params of each phase."""
        p, columns = self.p, self.across.last(self.p.stride_w - 1) - self.across.first + 1
        return tuple(
            Conv2dParams(
                p.in_h, p.in_w, p.in_c, -(-(p.out_h - phase) // p.stride_h), p.out_w // p.stride_w, p.stride_w * p.out_c,
                self.down.most, columns, 1, 1, 1, 1, self.down.most - 1 - self.down.last(phase), -self.across.first, 1,
                p.in_zero_point, p.shift, p.out_zero_point, p.lo, p.hi,
            )
            for phase in range(min(p.stride_h, p.out_h))
        )  # fmt: skip

    def constants(self, constants: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        """The constants of each phase. The bias of a convolution includes the zero point of its input."""
        p, weights = self.p, constants["weights"]
        zero = constants.get("weight_zero_point", np.zeros(p.out_c, np.int32))
        repeated = {n: np.tile(a.reshape(p.out_c, -1), (p.stride_w, 1)).reshape(-1) for n, a in constants.items()}
        for phase, own in enumerate(self.params):
            of_phase = np.empty((p.stride_w, p.out_c, own.kernel_h, own.kernel_w, p.in_c), weights.dtype)
            of_phase[:] = zero[:, None, None, None]
            for ky, kx, column in np.ndindex(p.kernel_h, p.kernel_w, p.stride_w):
                row, at = self.down.shift(phase, ky), self.across.shift(column, kx)
                if row is not None and at is not None:
                    of_phase[column, :, row + own.pad_top, at + own.pad_left] = weights[:, ky, kx]
            less = (of_phase.astype(np.int64) - zero[:, None, None, None]).sum(axis=(2, 3, 4)).reshape(-1)
            bias = (repeated["bias"] - p.in_zero_point * less).astype(np.int32)
            yield {**repeated, "weights": of_phase.reshape(-1, *of_phase.shape[2:]), "bias": bias}


@dataclass(frozen=True)
class _Transposed:
    """A kernel of `op`, as a kernel of conv_transpose2d."""

    kernel: Kernel
    op: str
    name: str

    def made(self) -> Kernel:
        return Kernel(
            self.name,
            isa=self.kernel.isa,
            inner=self.kernel,
            inner_op=self.op,
            inner_params=lambda p: Phases(p).params,
            when=self.why_not,
            constants=self.kernel.constants,
            arrange=self.arranged,
            scratch=lambda p: max(map(self.kernel.row_scratch or self.kernel.scratch, Phases(p).params)),
            cost=self.cost,
            rows_cost=self.cycles,
            store="rows",
            generated=self.text,
            named=self.symbol,
            columns=False,
        )

    def nodes(self, node: Node) -> Iterator[Node]:
        """The convolutions that compute a node."""
        phases = Phases(node.params)
        constants = {name: const.materialize() for name, const in node.constants.items()}
        for p, own in zip(phases.params, phases.constants(constants), strict=True):
            macs = p.out_h * p.out_w * p.out_c * p.kernel_h * p.kernel_w * p.in_c
            yield replace(node, op=self.op, params=p, macs=macs, constants={n: Const(a) for n, a in own.items()})

    def why_not(self, node: Node, target: Target) -> str | None:
        if (reason := Phases(node.params).why_not()) is not None:
            return reason
        if len({self.kernel.symbol_for(own) for own in Phases(node.params).params}) > 1:
            return "its phases are instances of their own"
        return next(filter(None, (self.kernel.when(own, target) for own in self.nodes(node))), None)

    def cycles(self, node: Node, target: Target, rows: int) -> float:
        """The cycles of a call: each row is a call of the convolution."""
        p = Phases(node.params).params[0]
        one = replace(p, out_h=1)
        macs = p.out_w * p.out_c * p.kernel_h * p.kernel_w * p.in_c
        row = replace(node, op=self.op, params=one, macs=macs)
        return rows * (ROW + self.kernel.cost(row, target).cycles)

    def cost(self, node: Node, target: Target) -> Cost:
        p = Phases(node.params).params[0]
        own = self.kernel.cost(replace(node, op=self.op, params=p), target)
        return Cost(
            self.cycles(node, target, node.params.out_h), own.code + 100 + 44 * node.params.stride_h, own.shared
        )

    def arranged(self, constants: Mapping[str, Array], p: ConvTranspose2dParams) -> Mapping[str, Array]:
        """The constants of all phases, one after the other."""
        phases = Phases(p)
        streams = [
            self.kernel.packed(own, params)
            for params, own in zip(phases.params, phases.constants(constants), strict=True)
        ]
        return {name: np.concatenate([stream[name] for stream in streams]) for name in streams[0]}

    def symbol(self, p: ConvTranspose2dParams) -> str:
        return f"{self.name}_{zlib.crc32(repr(p).encode()):08x}"

    def words(self, p: ConvTranspose2dParams) -> int:
        """The elements of a phase's constants, which are equally many whatever the weights."""
        own, mode = Phases(p).params[0], self.kernel.law
        shape = (own.out_c, own.kernel_h, own.kernel_w, own.in_c)
        zeros: dict[str, Array] = {
            "weights": np.zeros(shape, np.int8),
            "multiplier": np.zeros(own.out_c * WORDS[mode], np.int32),
        }
        for name in ("bias", *(["weight_zero_point"] if "_aw_" in self.op else [])):
            zeros[name] = np.zeros(own.out_c, np.int32)
        (stream,) = self.kernel.packed(zeros, own).values()
        return int(stream.size)

    def text(self, p: ConvTranspose2dParams) -> str:
        """The function that calls the convolution of each row's phase."""
        own, count = Phases(p).params, p.stride_h
        ((stream, ctype),) = (self.kernel.constants or {}).items()
        head = (
            f"static void {self.symbol(p)}(const {struct_name(type(p))} *p, const ge_rows *x, const {ctype} *{stream}, "
        )
        rest = "const ge_rows *out, int32_t first_row, int32_t last_row, void *scratch)"
        lines = [
            f"    static const {struct_name(Conv2dParams)} phases[{len(own)}] = {{",
            *(f"        {c_initialiser(one)}," for one in own),
            "    };",
            "    (void)p;",
            "    for (int32_t y = first_row; y < last_row; y++) {",
            "        const ge_rows row = {ge_row(out, y), NULL, 0};",
            f"        const int32_t phase = y % {count}, at = y / {count};",
            f"        {self.kernel.symbol_for(own[0])}(&phases[phase], x, {stream} + phase * {self.words(p)}, &row, at, at + 1, scratch);",
            "    }",
        ]
        comment = "/* Transposed convolution: row y is a row of convolution y % stride_h. */"
        return "\n".join([comment, f"{head}{rest} {{", *lines, "}\n"])


def transposed(kernel: Kernel, op: str, mode: Mode) -> Kernel:
    """The kernel of a transposed convolution that calls `kernel`, which is one of `op` in this law."""
    named = kernel if mode == "default" else of_law(kernel, mode)
    return _Transposed(named, in_mode(op, mode), kernel.symbol.replace("conv2d", "conv_transpose2d")).made()
