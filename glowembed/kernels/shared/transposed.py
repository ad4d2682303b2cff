"""Transposed convolution as ordinary convolutions, by kernels that a core has for these.

In: a kernel of a core for conv2d or depthwise. Out: the `Kernel` for conv_transpose2d that calls it. Output rows whose numbers
are equal modulo the stride (a phase) are a convolution of the input with some rows of the weights. Its outputs are as many
pixels side by side as the horizontal stride, with zeros as weights where one of them does not see a column. Where that
takes more products, where the layer has groups, or where the stride does not divide a row, there is a phase for each column of
the stride too, and its outputs go through a line in scratch. So all phases are convolutions of one size, which differ in their constants
and in the padding above and on the left.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from glowembed.graph.cstruct import c_initialiser, struct_name
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, in_mode, of_law, only
from glowembed.graph.target import Target
from glowembed.law.fixedpoint import WORDS
from glowembed.law.modes import Mode
from glowembed.ops.conv import Conv2dParams, hwo
from glowembed.ops.conv_transpose import ConvTranspose2dParams
from glowembed.ops.conv_transpose_wide import ConvTranspose2dS16Params
from glowembed.ops.conv_wide import Conv2dS16Params
from glowembed.records import dataclass

ROW = 40
"""The cycles that each call takes besides the convolution."""

PIXEL, WORD = 14, 2.5
"""The cycles of copying a pixel from the line, for the pixel and for each of its words."""

ALIGN = 16
"""The alignment of the scratch behind the line."""

CHUNK = 2
"""A chunk (Conv2dS16Params) that is right for all weights; kernels with sums in chunks are not called."""


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

    @property
    def apart(self) -> bool:
        """Whether no phase begins behind the inputs that it reads, so that each can be a convolution of its own."""
        return self.last(self.stride - 1) < self.most

    @property
    def together(self) -> int:
        """The inputs that outputs of all phases read, from the first to the last one."""
        return self.last(self.stride - 1) - self.first + 1


class Phases:
    """The convolutions of a layer."""

    def __init__(self, p: ConvTranspose2dParams | ConvTranspose2dS16Params) -> None:
        self.p = p
        self.down = _Axis(p.kernel_h, p.stride_h, p.dilation_h, p.pad_top)
        self.across = _Axis(p.kernel_w, p.stride_w, p.dilation_w, p.pad_left)
        fewer = self.across.most < self.across.together and self.across.apart  # products of a column by itself
        self.beside = p.stride_w if p.groups == 1 and p.out_w % p.stride_w == 0 and not fewer else 1
        """The pixels side by side that are the outputs of a convolution."""

    @property
    def depthwise(self) -> bool:
        """Whether the phases are depthwise convolutions."""
        return self.p.groups > 1 and self.p.in_c == self.p.groups

    @property
    def calls(self) -> int:
        """The convolutions that compute a row."""
        return int(self.p.stride_w) // self.beside

    def why_not(self) -> str | None:
        """The reason why the layer is not made of such convolutions."""
        if not self.down.apart:
            return "more rows are cut off above than its windows have"
        if self.calls > 1 and not self.across.apart:
            return "more columns are cut off on the left than its windows have"
        return None

    @cached_property
    def params(self) -> tuple[Conv2dParams | Conv2dS16Params, ...]:
        """The params of each phase: row after row, and column after column where a row is several convolutions."""
        p, across = self.p, self.across
        lefts = [-across.first]
        columns = across.together
        if self.calls > 1:
            columns = across.most
            lefts = [across.most - 1 - across.last(column) for column in range(self.calls)]
        shapes = [
            (
                p.in_h, p.in_w, p.in_c, -(-(p.out_h - phase) // p.stride_h), -(-p.out_w // p.stride_w), self.beside * p.out_c,
                self.down.most, columns, 1, 1, 1, 1, self.down.most - 1 - self.down.last(phase), left, p.groups,
            )
            for phase in range(min(p.stride_h, p.out_h))
            for left in lefts
        ]  # fmt: skip
        law = (p.in_zero_point, p.shift, p.out_zero_point, p.lo, p.hi)
        if isinstance(p, ConvTranspose2dS16Params):
            return tuple(Conv2dS16Params(*shape, CHUNK, *law) for shape in shapes)
        return tuple(Conv2dParams(*shape, *law) for shape in shapes)

    def constants(self, constants: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
        """The constants of each phase. The bias of a convolution includes the zero point of its input."""
        p, weights = self.p, constants["weights"]
        zero = constants.get("weight_zero_point", np.zeros(p.out_c, np.int32))
        repeated = {n: np.tile(a.reshape(p.out_c, -1), (self.beside, 1)).reshape(-1) for n, a in constants.items()}
        for number, own in enumerate(self.params):
            phase, first = divmod(number, self.calls)
            of_phase = np.empty((self.beside, p.out_c, own.kernel_h, own.kernel_w, p.in_c // p.groups), weights.dtype)
            of_phase[:] = zero[:, None, None, None]
            for ky, kx, column in np.ndindex(p.kernel_h, p.kernel_w, self.beside):
                row, at = self.down.shift(phase, ky), self.across.shift(first + column, kx)
                if row is not None and at is not None:
                    of_phase[column, :, row + own.pad_top, at + own.pad_left] = weights[:, ky, kx]
            less = (of_phase.astype(np.int64) - zero[:, None, None, None]).sum(axis=(2, 3, 4)).reshape(-1)
            bias = (repeated["bias"] - p.in_zero_point * less).astype(constants["bias"].dtype)
            flat = of_phase.reshape(-1, *of_phase.shape[2:])
            yield {**repeated, "weights": hwo(flat.transpose(0, 3, 1, 2)) if self.depthwise else flat, "bias": bias}


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
            scratch=self.scratch,
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
            macs = p.out_h * p.out_w * p.out_c * p.kernel_h * p.kernel_w * p.in_c // p.groups
            yield replace(node, op=self.op, params=p, macs=macs, constants={n: Const(a) for n, a in own.items()})

    def why_not(self, node: Node, target: Target) -> str | None:
        phases = Phases(node.params)
        if phases.depthwise != self.op.startswith("depthwise"):
            return "its phases are depthwise" if phases.depthwise else "its phases are not depthwise"
        if (reason := phases.why_not()) is not None:
            return reason
        if len({self.kernel.symbol_for(own) for own in phases.params}) > 1:
            return "its phases are instances of their own"
        return next(filter(None, (self.kernel.when(own, target) for own in self.nodes(node))), None)

    def cycles(self, node: Node, target: Target, rows: int) -> float:
        """The cycles of a call: each row is a call of the convolution, or several and the copies of their outputs."""
        phases = Phases(node.params)
        p = phases.params[0]
        macs = p.out_w * p.out_c * p.kernel_h * p.kernel_w * p.in_c // p.groups
        row = replace(node, op=self.op, params=replace(p, out_h=1), macs=macs)
        copy = p.out_w * (PIXEL + WORD * _bytes(phases) / 4) if phases.calls > 1 else 0.0
        return rows * phases.calls * (ROW + self.kernel.cost(row, target).cycles + copy)

    def cost(self, node: Node, target: Target) -> Cost:
        phases = Phases(node.params)
        own = self.kernel.cost(replace(node, op=self.op, params=phases.params[0]), target)
        code = own.code + (100 if phases.calls == 1 else 200) + 44 * len(phases.params)
        return Cost(self.cycles(node, target, node.params.out_h), code, own.shared)

    def scratch(self, p: ConvTranspose2dParams | ConvTranspose2dS16Params) -> int:
        """The bytes of the line, and of the convolution's own scratch."""
        phases = Phases(p)
        return _line(phases) + max(map(self.kernel.row_scratch or self.kernel.scratch, phases.params))

    def arranged(
        self, constants: Mapping[str, Array], p: ConvTranspose2dParams | ConvTranspose2dS16Params
    ) -> Mapping[str, Array]:
        """The constants of all phases, one after the other."""
        phases = Phases(p)
        streams = [
            self.kernel.packed(own, params)
            for params, own in zip(phases.params, phases.constants(constants), strict=True)
        ]
        return {name: np.concatenate([stream[name] for stream in streams]) for name in streams[0]}

    def symbol(self, p: ConvTranspose2dParams | ConvTranspose2dS16Params) -> str:
        return f"{self.name}_{zlib.crc32(repr(p).encode()):08x}"

    def words(self, p: ConvTranspose2dParams | ConvTranspose2dS16Params) -> Mapping[str, int]:
        """The elements of each of a phase's constants, which are equally many whatever the weights."""
        phases = Phases(p)
        own, mode = phases.params[0], self.kernel.law
        window, depth = (own.kernel_h, own.kernel_w), own.in_c // own.groups
        shape = (*window, own.out_c) if self.op.startswith("depthwise") else (own.out_c, *window, depth)
        zeros: dict[str, Array] = {
            "weights": np.zeros(shape, np.int8),
            "multiplier": np.zeros(own.out_c * WORDS[mode], np.int32),
        }
        for name in ("bias", *(["weight_zero_point"] if "_aw_" in self.op else [])):
            zeros[name] = np.zeros(own.out_c, np.int32)
        return {name: int(array.size) for name, array in self.kernel.packed(zeros, own).items()}

    def text(self, p: ConvTranspose2dParams | ConvTranspose2dS16Params) -> str:
        """The function that calls the convolutions of each row."""
        phases, own = Phases(p), Phases(p).params
        streams = self.kernel.constants or {}
        constants = ", ".join(f"const {ctype} *{name}" for name, ctype in streams.items())
        moved = ", ".join(f"{name} + number * {size}" for name, size in self.words(p).items())
        symbol, inner, kind = self.symbol(p), self.kernel.symbol_for(own[0]), struct_name(type(own[0]))
        call = f"{inner}(&phases[number], x, {moved}, &row, at, at + 1, "
        count, calls, pixel = p.stride_h, phases.calls, _bytes(phases)
        rows = [
            "    for (int32_t y = first_row; y < last_row; y++) {",
            "        const ge_rows row = {ge_row(out, y), NULL, 0};",
            f"        const int32_t number = y % {count}, at = y / {count};",
            f"        {call}scratch);",
            "    }",
        ]
        columns = [
            "    const ge_rows row = {scratch, NULL, 0};",
            f"    for (int32_t i = first_row * {calls}; i < last_row * {calls}; i++) {{",
            f"        const int32_t y = i / {calls}, number = i % {count * calls}, at = y / {count};",
            f"        {call}(int8_t *)scratch + {_line(phases)});",
            f"        int8_t *to = (int8_t *)ge_row(out, y) + i % {calls} * {pixel};",
            "        const int8_t *from = (const int8_t *)scratch;",
            f"        for (int32_t column = i % {calls}; column < {p.out_w}; column += {calls}) {{",
            f"            memcpy(to, from, {pixel});",
            f"            to += {calls * pixel};",
            f"            from += {pixel};",
            "        }",
            "    }",
        ]
        said = (
            f"row y is a row of convolution y % {count}" if calls == 1 else "each of some convolutions computes every"
        )
        signature = (
            f"static void {symbol}(const {struct_name(type(p))} *p, const ge_rows *x, {constants}, const ge_rows *out, "
            "int32_t first_row, int32_t last_row, void *scratch) {"
        )
        comment = f"/* Transposed convolution: {said}{'' if calls == 1 else f' {calls}th column'}. */"
        return "\n".join(
            [
                comment,
                signature,
                f"    static const {kind} phases[{len(own)}] = {{",
                *(f"        {c_initialiser(one)}," for one in own),
                "    };",
                "    (void)p;",
                *(rows if calls == 1 else columns),
                "}\n",
            ]
        )


def _bytes(phases: Phases) -> int:
    """The bytes of an output pixel."""
    return int(phases.p.out_c) * (2 if isinstance(phases.p, ConvTranspose2dS16Params) else 1)


def _line(phases: Phases) -> int:
    """The bytes of the line in scratch; 0 if the convolutions write the output."""
    size = phases.params[0].out_w * _bytes(phases) if phases.calls > 1 else 0
    return -(-size // ALIGN) * ALIGN


def transposed(kernel: Kernel, op: str, mode: Mode) -> Kernel:
    """The kernel of a transposed convolution that calls `kernel`, which is one of `op` in this law."""
    named = kernel if mode == "default" else of_law(kernel, mode)
    name = kernel.symbol.replace("conv2d", "conv_transpose2d").replace("depthwise", "conv_transpose2d_depthwise")
    return _Transposed(named, in_mode(op, mode), name).made()


def transposed_s16(*tables: Mapping[str, KernelsOf]) -> Mapping[str, KernelsOf]:
    """The kernels of transposed convolutions in int16 that call those in these tables whose constants are streams."""
    made: dict[str, Kernel] = {}

    def kernels(suffix: str) -> Iterator[Kernel]:
        for table, op in product(tables, ("conv2d_s16", "depthwise_s16")):
            for kernel in table[op + suffix]("default"):
                if kernel.constants is not None:
                    yield made.setdefault(kernel.symbol, transposed(kernel, op + suffix, "default"))

    return {f"conv_transpose2d_s16{suffix}": only(*kernels(suffix)) for suffix in ("", "_w16")}
