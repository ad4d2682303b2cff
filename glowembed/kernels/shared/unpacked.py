"""Kernels for weights of four bits, two in a byte, which unpack the weights to scratch and call a kernel for int8
weights. In:

a kernel of a core for the op with int8 weights. Out: the `Kernel` for the op with int4 weights, or with weights that
are codes for a table of sixteen int8 numbers. One mechanism serves both, all cores and all orders of weights: it finds
the words of the kernel's constants that hold four weights whatever their values, and stores these in half a word. The
cost is one pass over the weights in each call, and scratch for the weights as bytes; layers whose rows are vectors
unpack some output channels at a time. runtime_c/ge_unpack_runs.h has the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import groupby
from math import prod
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.cstruct import struct_name
from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelOp, Store
from glowembed.graph.target import Target
from glowembed.law import fixedpoint
from glowembed.records import dataclass

Words = NDArray[np.uint32]
Run = tuple[int, int, int]
"""How often the run repeats, and how many words as they are and words of four weights each repetition has."""

LOWEST, HIGHEST = -8, 7
"""The range of int4 numbers."""

NUMBERS = 16
"""The numbers that four bits can tell apart."""

BORROWS = 0x00800080
"""The signs of the lower bytes in a word of two pairs."""

ALIGN = 16
"""The alignment and granularity in bytes of unpacked constants."""

PART_BYTES = 2048
"""The approximate number of weights that layers whose rows are vectors unpack at a time."""

PART_CHANNELS = 16
"""The number of output channels of a part is a multiple of this, which is a multiple of the groups of all kernels."""

RUN_MAX = 2**16 - 1
"""The most repetitions of a run, and the most words as they are in each."""

CHANNEL_BITS = 20
"""The bits that hold the number of output channels; the 12 above them hold the number of runs."""

CODE = 60
"""The bytes of code of a function that unpacks and calls."""


class OfChannels(Protocol):
    """The params of a layer with weights."""

    @property
    def out_c(self) -> int:
        """The number of output channels."""


@dataclass(frozen=True)
class Form:
    """The runs of one constant. borrows: BORROWS if its words are two pairs 256 * a + b of weights, else 0."""

    runs: tuple[Run, ...]
    borrows: int = 0

    @property
    def packed(self) -> int:
        """The number of words of four weights."""
        return sum(repeat * packed for repeat, _, packed in self.runs)

    @property
    def words(self) -> int:
        return sum(repeat * (plain + packed) for repeat, plain, packed in self.runs)

    def bytes_of(self, words: Words) -> Array:
        """The weights in words: [words, 4]. Where a lower byte of a pair is negative, the upper byte is one less than
        its weight.
        """
        low = words & np.uint32(0xFF00FF)
        high = (words >> np.uint32(8) & np.uint32(0xFF00FF)) + ((words & np.uint32(self.borrows)) >> np.uint32(7))
        whole = low | (high & np.uint32(0xFF00FF)) << np.uint32(8)
        return np.asarray(whole.astype("<u4").view(np.int8).reshape(-1, 4))


class Code:
    """What four bits stand for: the numbers from LOWEST to HIGHEST. The attributes are the suffix of the kernels, the
    name of what unpacks, the cycles for each weight on a Cortex-M4, and the bytes of code of what unpacks.
    """

    suffix, function, cycles, shared = "_w4", "ge_unpack", 1.8, 150

    cores: tuple[str, ...] = ()
    """The cores with a function of their own that unpacks."""

    borrowing: tuple[str, ...] = ()
    """The cores on which it may subtract borrows."""

    def function_of(self, isa: str) -> str:
        return self.function.replace("ge_", f"ge_{isa}_") if isa in self.cores else self.function

    def numbers(self, weights: Array) -> Array:
        """The numbers for which there are codes in a layer with these weights, in ascending order."""
        return np.arange(LOWEST, HIGHEST + 1, dtype=np.int8)

    def why_not(self, weights: Array) -> str | None:
        inside = weights.min(initial=0) >= LOWEST and weights.max(initial=0) <= HIGHEST
        return None if inside else f"a weight is outside of {LOWEST}..{HIGHEST}"

    def samples(self, shape: Sequence[int]) -> list[Array]:
        """Weights that reveal how a kernel orders them: the extremes, and irregular nonzero numbers."""
        rng = np.random.default_rng(0)
        mixed = [rng.integers(1, HIGHEST + 1, shape) * rng.choice([-1, 1], shape) for _ in range(2)]
        return [a.astype(np.int8) for a in (np.full(shape, HIGHEST), np.full(shape, -HIGHEST), *mixed)]

    def head(self, numbers: Array, form: Form) -> Words:
        """What stands between the sizes and the runs."""
        return np.zeros(0, np.uint32)


class TableCode(Code):
    """Four bits stand for one of the at most sixteen numbers in the weights of a layer."""

    suffix, function, cycles, shared = "_wt", "ge_unpack_table", 6.2, 260
    cores, borrowing = ("dsp", "mve", "x86"), ("dsp",)

    def numbers(self, weights: Array) -> Array:
        """The numbers in the weights, and 0, which kernels add at the edges, if there is room for it."""
        own = np.unique(weights)
        return np.union1d(own, [0]).astype(np.int8) if len(own) < NUMBERS else own

    def why_not(self, weights: Array) -> str | None:
        count = len(np.unique(weights))
        return None if count <= NUMBERS else f"its weights are {count} different numbers, and a table has {NUMBERS}"

    def samples(self, shape: Sequence[int]) -> list[Array]:
        """As for int4, with odd numbers only: the upper byte of a pair that is one less than its weight is no odd
        number.
        """
        return [a | 1 for a in super().samples(shape)]

    def head(self, numbers: Array, form: Form) -> Words:
        table = np.pad(numbers, (0, NUMBERS - len(numbers))).astype(np.int8).view("<u4")
        return np.concatenate([table, [form.borrows]]).astype(np.uint32)


@dataclass(frozen=True)
class _Unpacking:
    """A kernel of `op`, preceded by an unpacking of its weights, as a kernel of `packed_op`."""

    kernel: Kernel
    op: KernelOp[Any]
    packed_op: KernelOp[Any]
    code: Code

    def made(self) -> Kernel:
        rows_cost, named = self.kernel.rows_cost, self.kernel.named
        return replace(
            self.kernel,
            symbol=self.kernel.symbol + self.code.suffix,
            inner=self.kernel,
            inner_op="",
            inner_params=lambda p: (p,),
            named=None if named is None else lambda p: named(p) + self.code.suffix,
            pack={},
            template="",
            constants=self.types,
            when=self.why_not,
            arrange=self.arranged,
            scratch=self.scratch,
            cost=self.cost,
            rows_cost=None
            if rows_cost is None
            else lambda n, t, rows: rows_cost(self.as_bytes(n), t, rows) + self.cycles(n),
            store=self.store,
            same_place=lambda p: False,
            row_scratch=None,
            blocks=lambda p: 0,
            generated=self.text,
        )

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The C types of the constants; those that may hold weights are packed."""
        own = self.kernel.ctypes(self.op)
        return {name: "uint32_t" if name in self.ours else ctype for name, ctype in own.items()}

    @cached_property
    def ours(self) -> tuple[str, ...]:
        """The names of the constants that may hold weights: not the op's other constants, and no floats."""
        own = self.kernel.ctypes(self.op).items()
        return tuple(n for n, t in own if (n == "weights" or n not in self.op.constants) and t != "float")

    def words(self, constants: Mapping[str, Array], p: OfChannels) -> dict[str, Words]:
        """The constants that may hold weights, as the kernel reads them, in words."""
        arrays = self.kernel.packed(constants, p)
        stored = {name: np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8) for name in self.ours}
        return {name: np.pad(a, (0, -a.size % 4)).view("<u4").astype(np.uint32) for name, a in stored.items()}

    @cached_property
    def forms(self) -> Callable[[Any], Mapping[str, Form]]:
        """For given params, the form of each of these constants for any weights; none if there is no such form."""
        return cache(self._forms)

    def _forms(self, p: OfChannels) -> Mapping[str, Form]:
        bias = (np.arange(p.out_c, dtype=np.int64) * 104729 + 1048573).astype(np.int32)
        multiplier = fixedpoint.requant([2.0**-9] * p.out_c, self.op.requantization).multiplier
        others = {"bias": bias, "multiplier": np.asarray(multiplier, np.int32)}
        samples = self.code.samples(self.packed_op.weights_shape(p))
        numbers = self.code.numbers(np.stack(samples))
        probes = [self.words({"weights": w, **others}, p) for w in samples]
        if any(len({probe[name].size for probe in probes}) > 1 for name in self.ours):
            return {}  # the number of words depends on the weights
        borrows = (0, BORROWS) if self.kernel.isa in self.code.borrowing else (0,)

        def form(name: str, borrows: int) -> Form:
            known = [_coded(Form((), borrows).bytes_of(probe[name]), numbers) for probe in probes]
            return Form(_runs(np.all(known, axis=0)), borrows)

        forms = {name: max((form(name, b) for b in borrows), key=lambda f: f.packed) for name in self.ours}
        large = p.out_c >= 2**CHANNEL_BITS or any(len(f.runs) >= 2 ** (32 - CHANNEL_BITS) for f in forms.values())
        return {} if large else forms

    def arranged(self, constants: Mapping[str, Array], p: OfChannels) -> Mapping[str, Array]:
        """The constants of the kernel; those that may hold weights are in the format of ge_unpack_runs.h, part after
        part.
        """
        found: dict[str, list[Words]] = {name: [] for name in self.ours}
        numbers = self.code.numbers(constants["weights"])
        for channels in self.parts(p):
            part = _of_size(p, channels)
            forms, count = self.forms(part), len(channels)
            for name, words in self.words(_of_channels(constants, channels), part).items():
                head = self.code.head(numbers, forms[name])
                found[name].append(_packed(words, forms[name], count, head, numbers))
        whole = self.kernel.packed(constants, p) if len(self.types) > len(self.ours) else {}
        return {**whole, **{name: np.concatenate(parts) for name, parts in found.items()}}

    def parts(self, p: OfChannels) -> list[range]:
        """The output channels of each part that is unpacked at a time."""
        weights = prod(self.packed_op.weights_shape(p))
        step = max(PART_BYTES * p.out_c // max(1, weights) // PART_CHANNELS, 1) * PART_CHANNELS
        if not self.packed_op.of_vectors or len(self.types) not in (1, 3) or step >= p.out_c:
            return [range(p.out_c)]
        return [range(first, min(first + step, p.out_c)) for first in range(0, p.out_c, step)]

    def store(self, p: OfChannels) -> Store:
        """How far the output may overlap the input, which is read again for each part if it has several rows."""
        again = len(self.parts(p)) > 1 and self.packed_op.rows(p) > 1
        return "disjoint" if again else self.kernel.store_of(p)

    def scratch(self, p: OfChannels) -> int:
        """The bytes for the unpacked constants of the largest part, and for the kernel's own scratch."""
        part = _of_size(p, self.parts(p)[0])
        return sum(_aligned(form.words) for form in self.forms(part).values()) + self.kernel.scratch(part)

    def as_bytes(self, node: Node) -> Node:
        return replace(node, op=self.op.name)

    def why_not(self, node: Node, target: Target) -> str | None:
        """The reason why the kernel does not apply, or why its order of weights has no form of four bits."""
        weights, p = node.constants["weights"].materialize(), node.params
        if (reason := self.code.why_not(weights) or self.kernel.when(self.as_bytes(node), target)) is not None:
            return reason
        constants = {name: const.materialize() for name, const in node.constants.items()}
        numbers = self.code.numbers(weights)
        for channels in self.parts(p):
            part = _of_size(p, channels)
            forms, words = self.forms(part), self.words(_of_channels(constants, channels), part)
            few = 8 * sum(form.packed for form in forms.values()) * p.out_c < weights.size * len(channels)
            if few or not all(_fits(words[name], form, numbers) for name, form in forms.items()):
                return "its order of weights has no form of four bits"
        return None

    def cycles(self, node: Node) -> float:
        """The cycles of the unpacking."""
        return self.code.cycles * prod(self.packed_op.weights_shape(node.params))

    def cost(self, node: Node, target: Target) -> Cost:
        own = self.kernel.cost(self.as_bytes(node), target)
        return Cost(own.cycles + self.cycles(node), own.code + CODE, own.shared + self.code.shared)

    def text(self, p: OfChannels) -> str:
        """The function that unpacks and calls."""
        struct, types = struct_name(self.op.params), self.kernel.ctypes(self.op)
        inputs = [f"const ge_rows *{name}" for name in self.op.inputs]
        constants = [f"const {ctype} *{name}" for name, ctype in self.types.items()]
        rest = ["const ge_rows *out", "int32_t first_row", "int32_t last_row", "void *scratch"]
        parameters = ", ".join([f"const {struct} *p", *inputs, *constants, *rest])
        inner = self.kernel.symbol_for(p)
        symbol = self.made().symbol_for(p)
        unpacks = self.code.function_of(self.kernel.isa)
        ends = [f"{unpacks}({name}, unpacked_{name})" for name in self.ours]
        unpack = [f"void *const unpacked_{n} = {at};" for n, at in zip(self.ours, ("scratch", *ends), strict=False)]
        unpack.append(f"void *const rest = {ends[-1]};")
        arguments = [f"(const {t} *)unpacked_{name}" if name in self.ours else name for name, t in types.items()]
        own, out = ("&part", "&columns") if self.packed_op.of_vectors else ("p", "out")
        names = ", ".join([own, *self.op.inputs, *arguments, out, "first_row", "last_row", "rest"])
        lines = [*unpack, f"{inner}({names});"]
        lines = self.in_parts(lines, struct) if self.packed_op.of_vectors else lines
        return "\n".join(
            [
                f'#include "{unpacks}.h"',
                f"/* {inner} with weights of four bits, which are unpacked to scratch. */",
                f"static void {symbol}({parameters}) {{",
                *(f"    {line}" for line in lines),
                "}\n",
            ]
        )

    def in_parts(self, lines: Sequence[str], struct: str) -> list[str]:
        """The lines, repeated for one part of the output channels after the other."""
        strides = {"bias": 1, "multiplier": fixedpoint.WORDS[self.op.requantization]}
        ahead = [f"{name} += {n} * part.out_c;" for name, n in strides.items() if name in self.types]
        ahead += [f"{name} += {name}[GE_UNPACK_SIZE];" for name in self.ours]
        return [
            f"{struct} part = *p;",
            "ge_rows columns = *out;",
            "for (int32_t channel = 0; channel < p->out_c; channel += part.out_c) {",
            f"    part.out_c = GE_UNPACK_CHANNELS_OF({self.ours[0]});",
            *(f"    {line}" for line in lines),
            "    columns.data = (int8_t *)columns.data + part.out_c;",
            *(f"    {line}" for line in ahead),
            "}",
        ]


def unpacked(kernel: Kernel, op: KernelOp[Any], packed_op: KernelOp[Any]) -> Kernel:
    """The kernel of `packed_op` that unpacks its weights and calls `kernel`, which is one of `op`."""
    return _Unpacking(kernel, op, packed_op, TableCode() if packed_op.of_table else Code()).made()


def _of_size(p: OfChannels, channels: range) -> OfChannels:
    """The params of a layer that computes only these output channels."""
    one: Any = p
    return p if len(channels) == p.out_c else cast(OfChannels, replace(one, out_c=len(channels)))


def _of_channels(constants: Mapping[str, Array], channels: range) -> Mapping[str, Array]:
    """The constants of some output channels; unless these are all channels, the channel must be the first axis of each
    constant.
    """
    count = len(constants["bias"])
    if len(channels) == count:
        return constants
    cut = {name: array.reshape(count, -1)[channels.start : channels.stop] for name, array in constants.items()}
    return {name: array.reshape(-1, *constants[name].shape[1:]) for name, array in cut.items()}


def _aligned(words: int) -> int:
    """The bytes of `words` words, including the gap after them."""
    return -(-4 * words // ALIGN) * ALIGN


def _coded(weights: Array, numbers: Array) -> NDArray[np.bool_]:
    """For each word, whether all its weights have a code."""
    return np.asarray(np.isin(weights, numbers).all(axis=1))


def _runs(packable: NDArray[np.bool_]) -> tuple[Run, ...]:
    """Alternating runs of words as they are and packable words; equal neighbours become one run that repeats."""
    sizes = [(key, len(list(group))) for key, group in groupby(packable.tolist())]
    if sizes and sizes[0][0]:
        sizes.insert(0, (False, 0))
    if len(sizes) % 2:
        sizes.append((True, 0))
    pairs = [(plain[1], packed[1]) for plain, packed in zip(sizes[::2], sizes[1::2], strict=True)]
    short = [
        piece for plain, packed in pairs for piece in (*[(RUN_MAX, 0)] * (plain // RUN_MAX), (plain % RUN_MAX, packed))
    ]
    runs = [(len(list(same)), *pair) for pair, same in groupby(short)]
    return tuple((min(RUN_MAX, n - i), plain, packed) for n, plain, packed in runs for i in range(0, n, RUN_MAX))


def _pieces(words: Words, runs: Sequence[Run]) -> list[tuple[Words, Words]]:
    """For each repetition, the words as they are and the packable words."""
    sizes = [size for repeat, plain, packed in runs for _ in range(repeat) for size in (plain, packed)]
    parts = np.split(words, np.cumsum(sizes).tolist())
    return list(zip(parts[:-1:2], parts[1::2], strict=True))


def _fits(words: Words, form: Form, numbers: Array) -> bool:
    if form.words != len(words):
        return False
    return all(_coded(form.bytes_of(packable), numbers).all() for _, packable in _pieces(words, form.runs))


def _packed(words: Words, form: Form, channels: int, head: Words, numbers: Array) -> Words:
    """Constants in the format of ge_unpack_runs.h."""
    body: list[Words] = []
    odd: Words | None = None  # a word whose upper halves are free
    for plain, packable in _pieces(words, form.runs):
        both, last = _halves(form.bytes_of(packable), numbers)
        body += [plain, both]
        if len(last) and odd is not None:
            odd |= last << np.uint32(4)
            odd = None
        elif len(last):
            odd = last
            body.append(odd)
    runs = np.asarray(
        [number for repeat, plain, packed in form.runs for number in (repeat | plain << 16, packed)], np.uint32
    )
    size = 3 + len(head) + len(runs) + sum(map(len, body))
    sizes = np.asarray([size, _aligned(len(words)), channels | len(form.runs) << CHANNEL_BITS], np.uint32)
    return np.concatenate([sizes, head, runs, *body]).astype(np.uint32)


def _halves(weights: Array, numbers: Array) -> tuple[Words, Words]:
    """Two words of four weights in one; the first half of the words is in the lower halves of its bytes. And the last word of an
    odd number.
    """
    codes = np.searchsorted(numbers, weights).astype(np.uint8)
    half = len(codes) // 2
    both = codes[:half] | codes[half : 2 * half] << 4
    first, last = (part.view("<u4").reshape(-1).astype(np.uint32) for part in (both, codes[2 * half :]))
    return first, last
