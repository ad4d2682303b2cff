"""The contracts of an op file: Op (meaning), KernelOp (integer arithmetic) and Kernel (C code).

One file `ops/<family>.py` holds everything about a family: how ONNX nodes are imported, its shapes, its float
reference, how it is lowered to a kernel-level op with params, the bit-exact integer reference, and the list of its
portable kernels. Every file in the folder is loaded, so there is no list to edit. To add one, copy ops/TEMPLATE.py.txt.

    ONNX node --import_onnx--> Node(op="Conv") --lower--> Node(op="conv2d_s8", params) --choose--> ge_conv2d_s8[_isa]
               Op                                KernelOp                                Kernel
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from glowembed.graph.geometry import UNSPECIFIED, Geometry
from glowembed.graph.ir import Array, Const, Graph, Node, QType, Shape, Value
from glowembed.graph.target import PORTABLE
from glowembed.law.fixedpoint import LAWS
from glowembed.law.modes import MODES, Mode
from glowembed.records import dataclass

if TYPE_CHECKING:
    from glowembed.graph.isa import Layer
    from glowembed.graph.target import Target

Params = TypeVar("Params")
"""The params dataclass of a kernel-level op."""


UNSUPPORTED = "the operator is not supported"


class Refused(Exception):
    """Raised by `import_onnx` for a node that is not supported. The importer adds name and op, and lists all of them."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class Malformed(Refused):
    """Raised for a node that contradicts itself; the importer then tries no other way to compute it."""


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node without protobuf. The name of an absent optional input is ""; `opset` is that of the node's domain."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int

    def input(self, index: int) -> str | None:
        """The name of input `index`, or None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) and self.inputs[index] else None


class Builder(Protocol):
    """The interface through which `import_onnx` builds nodes. Every shape is known, because the importer follows the
    order of execution.
    """

    def shape(self, name: str) -> Shape: ...

    def const(self, name: str) -> Array | None:
        """The array of a constant (initializer, Constant node or folded), or None if it is not a constant."""

    def dtype(self, name: str) -> str: ...

    def constant(self, name: str, const: Const) -> str:
        """Add a constant, named after the value it derives from (`W/matrix`). Adding it again has no effect."""

    def delayed(self, name: str) -> Const:
        """The delayed constant of a name for which `const` is not None; steps are added with `.then`."""

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], output: str) -> str:
        """Add a node with one output, infer its shape, return `output`."""

    def transpose(self, name: str, perm: Sequence[int], output: str | None = None) -> str:
        """`name` with its axes permuted; nothing is added for the identity unless `output` is given.

        Without `output` the result is shared: two calls give the same value, named `<name>/<layout>`.
        """


Dependence = Literal["move", "pointwise", "pair", "window", "sum", "axis", "unknown"]
"""Which elements of the inputs an element of the output depends on.

move: it is an element of an input, or the zero of a border. pointwise: it is a function of the input element in the
same place; all elements of a channel have the same function. pair: a function of the two elements in the same place,
after broadcasting. window: a function of the elements of its channel in a window. sum: it adds products with the
constant weights of its channel (`has_weights`) over the input channels of its group. axis: it depends on all elements
along the last axis. unknown: passes over channels do not change inputs and outputs of the op.
"""

OutputType = Literal["profile", "input", "shared"]
"""The source of an output's QType: the profiled range, the type of the first input, or one type that all real numbers
of the node share. An op may have a fixed QType instead.
"""

FOLLOWS: tuple[OutputType, ...] = ("input", "shared")
"""The sources with which a node takes the dtype of its neighbours, because it only moves or chooses numbers."""


@dataclass(frozen=True)
class Product:
    """One of several products of an op, with constant weights [rows, features]. x: the number of the input that is
    multiplied; None means the op's own output, in `qtype` if the output has another type. Biases stay float until the
    op is lowered.
    """

    x: int | None
    weights: int
    bias: int
    qtype: QType | None = None


class Op(ABC):
    """The meaning of a node. Layout-sensitive ops are channels-last: [N, L, C] or [N, H, W, C] with N = 1.

    Weights are constants among the values of the graph, and stay float until emit. `attrs` hold ints, floats, strings
    and tuples.
    """

    name: ClassVar[str]
    onnx: ClassVar[tuple[str, ...]] = ()
    output_type: ClassVar[OutputType | QType] = "profile"
    finer_output: ClassVar[bool] = False
    """For a fixed output type in int8: whether the op can have finer steps where the samples use only a small part of the range."""

    joins: ClassVar[bool] = False
    """Whether canonicalization may join the op with an elementwise operator that is the only reader of its output into
    one function.
    """

    elementwise: ClassVar[bool] = False
    """Whether the op means the same for every order of axes, so that a Transpose can be pushed through it without
    changing attrs.
    """

    dependence: ClassVar[Dependence] = "unknown"

    plain: ClassVar[bool] = False
    """Whether the op computes in the types that the model gives its values. Nothing is quantized, and floats are
    float32 at most.
    """

    converts: ClassVar[bool] = False
    """Whether the op stores the same real numbers in another type."""

    rounds_once: ClassVar[bool] = False
    """Whether the int8 kernels read and write any int8 type per tensor with one rounding: a Rescale beside the op can be merged."""

    scatters: ClassVar[bool] = False
    """For sums: each input element, less its zero point, is added to several outputs, and some outputs have fewer terms."""

    has_weights: ClassVar[bool] = False
    """Whether the inputs are (x, weights with the output channel as axis 0, bias); the last two are constants."""

    weights_of_four_bits: ClassVar[bool] = False
    """Whether an int8 node of the op may have weights of int4, or of sixteen numbers in a table."""

    products: ClassVar[tuple[Product, ...]] = ()
    """For an op with several products, which has no `has_weights`: its products. Weights have the output row as axis 0."""

    inner: ClassVar[tuple[str, ...]] = ()
    """The names of the results of `float_inner`. The profile records each as `<output>/<name>`, and a node of a typed
    graph has its range as the attr `<name>`.
    """

    float_by_default: ClassVar[str] = ""
    """The reason why the op is computed in float32 unless `--dtype` or a rule gives it another dtype; "" if there is none."""

    plain_constants: ClassVar[bool] = False
    """Whether the constant inputs stay as in the model in every dtype; the op stores what it needs of them."""

    rounds_weights: ClassVar[bool] = True
    """For ops with weights: whether the op computes with weights rounded to their QType in every law."""

    fuses_activation: ClassVar[bool] = False
    """Whether the op takes the attrs `act_min` and `act_max` (floats, may be infinite), the limits of a clip on the real output."""

    rounds_operands: ClassVar[Collection[Mode]] = ()
    """For a pair: the laws in which each operand is rounded separately, so that a constant operand is not just a shift."""

    law_of_models: ClassVar[Mode] = "default"
    """The requantization law for outputs whose type a quantized model gives, unless a setting names another law."""

    @property
    def weights_and_biases(self) -> tuple[tuple[int, int], ...]:
        """The indices of the weights and the bias of each product."""
        return tuple((p.weights, p.bias) for p in self.products) or (((1, 2),) if self.has_weights else ())

    @property
    def weighted(self) -> bool:
        """Whether the op has weights, in one product or in several."""
        return bool(self.weights_and_biases)

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        """Add the IR nodes for one ONNX node of a kind in `onnx`; raise Refused with a reason and a hint."""
        raise NotImplementedError(f"{self.name} is not made from ONNX nodes")

    @abstractmethod
    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        """Return the output shapes for these input shapes."""

    @abstractmethod
    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the float32 reference, from numpy to numpy."""

    def float_refs(self, attrs: Mapping[str, Any], runs: Sequence[Sequence[Array]]) -> Sequence[tuple[Array, ...]]:
        """The float32 references of several runs, each with its inputs; an array that several runs share is the same object."""
        return [self.float_ref(attrs, inputs) for inputs in runs]

    def float_inner(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Compute in float32 what `inner` names: numbers inside the op whose range the integer law needs."""
        return ()

    def patches(self, attrs: Mapping[str, Any], x: Array) -> Array | None:
        """What the weights of an output channel multiply: [groups, outputs of a channel, its weights in their order]."""
        return None

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        """Return the attrs with which the op can read the input of a Transpose before it: T(perm), op equals op with
        these attrs, T(perm).

        `perm` is the Transpose that feeds the op, of the op's rank. Returns None if the Transpose cannot be pushed
        through.
        """
        return attrs if self.elementwise else None

    def input_type(self, index: int, dtype: str) -> QType | None:
        """The fixed type of computed input `index` for nodes of this dtype; None if it follows from the dtype."""
        return None

    def limits(self, attrs: Mapping[str, Any]) -> Sequence[float]:
        """For a shared type: real numbers that it must hold in addition to those of constants and outputs."""
        return ()

    def chooses(self, attrs: Mapping[str, Any]) -> bool:
        """For an op whose output has the type of its input: whether each output is one of the input numbers, so that
        the node can work on the integers of a quantized model.
        """
        return True

    def keeps_channels(self, attrs: Mapping[str, Any]) -> bool:
        """For a move: whether each output channel is a channel of an input, so that channels can be removed from both."""
        return True

    def narrowed(self, attrs: Mapping[str, Any], kept: Array | None, x: Shape, y: Shape) -> Mapping[str, Any]:
        """The attrs of the node after channels were removed: its first input has the shape `x` and the channels `kept` of the
        former ones (None: all of them), its output the shape `y`.
        """
        return attrs

    def scale_and_shift(self, constant: Const, reverse: bool) -> tuple[Const, Const]:
        """For a pair with a constant vector as one input: the scale and shift that give the same function of the other
        input.

        reverse: whether the constant is the first input.
        """
        raise NotImplementedError(f"{self.name} with a constant is no scale and shift")

    @abstractmethod
    def lower(self, node: Node, c: LowerContext) -> None:
        """Add the kernel-level nodes for an int8 node to the context. Other dtypes are in the LOWERINGS of a module."""


def is_a(node: Node, kind: type[Op] | type[KernelOp[Any]]) -> bool:
    """Whether the node has this op itself; a subclass is another op. It is for rewrites that match one operator;
    properties of ops are traits of Op.
    """
    return node.op == kind.name


@dataclass
class LowerContext:
    """The data that `lower` reads (values with their qtypes) and writes (kernel-level nodes and values, in order)."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken = {node.name for node in self.graph.nodes}

    def value(self, name: str) -> Value:
        return self.values[name] if name in self.values else self.graph.values[name]

    def qtype(self, name: str) -> QType:
        qtype = self.value(name).qtype
        assert qtype is not None, f"{name} has no QType"
        return qtype

    def dtype(self, name: str) -> str:
        """The dtype in which the elements of a value are stored."""
        value = self.value(name)
        return value.qtype.dtype if value.qtype else value.dtype

    def const(self, name: str) -> Const:
        const = self.value(name).const
        assert const is not None, f"{name} is not a constant"
        return const

    def shape(self, name: str) -> Shape:
        return self.value(name).shape

    def derive(self, name: str, role: str, shape: Shape, qtype: QType) -> str:
        """Add an intermediate value `<name>/<role>` and return its name; a prime is appended if the model has a value
        of that name.
        """
        value = Value(free_name(f"{name}/{role}", self.graph.values, self.values), shape, qtype=qtype)
        self.values[value.name] = value
        return value.name

    def add(
        self,
        node: Node,
        op: str,
        inputs: Sequence[str],
        output: str,
        params: Any = None,
        constants: Mapping[str, Const] | None = None,
        shares: int | None = None,
        macs: int = 0,
        role: str = "",
    ) -> None:
        """Add a kernel-level node on behalf of `node`. If a node becomes several, each has a `role`.

        A prime is appended if the model has a node of the resulting name.
        """
        name = free_name(f"{node.name}/{role}", self.taken) if role else node.name
        self.taken.add(name)
        self.nodes.append(
            Node(name, op, tuple(inputs), (output,), {}, node.origins, params, constants or {}, None, shares, macs)
        )


Lowering = Callable[[Node, LowerContext], None]
"""A function that adds the kernel-level nodes for a node to the context."""


def free_name(name: str, *taken: Collection[str]) -> str:
    """`name`, with as many primes as are needed to make it unique."""
    while any(name in names for names in taken):
        name += "'"
    return name


Store = Literal["disjoint", "rows", "elements"]
"""How far an output may overlap an input that is not read again, if rows are computed in increasing order.

disjoint: not at all. rows: row y may be written as soon as no later row reads that memory (row y itself is still being
read). elements: every element is read before the element in the same place is written, so the output may be computed in
place if its rows have as many bytes as those of the input; otherwise this means the same as rows.
"""


@dataclass(frozen=True)
class Cost:
    """An estimate of the cycles of one call for the whole output, and of the bytes of code at -O2.

    code: the bytes of one instance of the kernel; shared: the bytes of the code that all its instances call.
    """

    cycles: float
    code: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Kernel:
    """One C implementation of an op, runtime_c/kernels/<core>/<symbol without ge_>.c. All of an op have one signature and the same bits.

    template: the symbol of the kernel whose file this one is made from, with the words of another requantization or other numbers (see
    csource.py); folder: where that file lies, if it is shared by several cores. isa: the ISA word that the target must have ("" = portable
    C). option: the option of `compile` that allows this kernel ("" = none needed), for kernels that take much flash. when: returns None if
    the kernel applies, else the reason why not (proofs about weights belong here). pack: for each constant, the function that orders it for
    this kernel. scratch: its bytes. cost: an estimate. constants, arrange: for kernels that need more than reordering: names and C types of
    the constants that this kernel takes instead of those of the op, and the function that makes them from those of the op and params.
    instance: layer constants that are numbers in the C text, by the name of their #define without the kernel's prefix. The kernel is
    emitted once for each distinct set of them. words: further #defines that are not part of the symbol, such as a type. headers: the
    headers of words that it includes in place of those that its file names. law: the requantization law that it includes. generated, named:
    for a kernel without a file, functions from params to its C text and to its symbol. inner: the kernel that its text calls; inner_op: its
    op, if it is not the one that is unpacked; inner_params: the params of the calls. macros: for a kernel with levels, which macros of a
    level's headers get other values, from the layers of a network that it computes and from these macros. rows_cost: cycles of one call for
    a number of output rows, if it differs from `cost` of a smaller tensor. store: how far an output may overlap an input that is not read
    again, for all params or as a function of them. same_place: one call for all rows may write the output exactly where the input lies,
    although it does not read rows in order. row_scratch: the bytes of scratch of a call for one row, if it needs less. blocks: the kernel
    can compute just the first channels of every pixel (`groups` of them), any multiple of this number, and its constants are in the order
    of channels; 0: it always computes all channels. columns: it also computes some columns of rows that are longer.
    """

    symbol: str
    isa: str = ""
    option: str = ""
    when: Callable[[Node, Target], str | None] = lambda node, target: None
    pack: Mapping[str, Callable[[Array, Any], Array]] = field(default_factory=dict)
    scratch: Callable[[Any], int] = lambda params: 0
    cost: Callable[[Node, Target], Cost] = lambda node, target: Cost(cycles=8.0 * node.macs)
    store: Store | Callable[[Any], Store] = "disjoint"
    constants: Mapping[str, str] | None = None
    arrange: Callable[[Mapping[str, Array], Any], Mapping[str, Array]] | None = None
    template: str = ""
    folder: str = ""
    instance: Callable[[Any], Mapping[str, int]] | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    law: Mode = "default"
    rows_cost: Callable[[Node, Target, int], float] | None = None
    same_place: Callable[[Any], bool] = lambda params: False
    row_scratch: Callable[[Any], int] | None = None
    blocks: Callable[[Any], int] = lambda params: 0
    columns: bool = True
    generated: Callable[[Any], str] | None = None
    named: Callable[[Any], str] | None = None
    inner: Kernel | None = None
    inner_op: str = ""
    inner_params: Callable[[Any], Sequence[Any]] = lambda params: (params,)
    macros: Callable[[Sequence[Layer], Mapping[str, str]], Mapping[str, str]] | None = None

    def store_of(self, params: Any) -> Store:
        """How far the output may overlap an input that is not read again, for these params."""
        return self.store(params) if callable(self.store) else self.store

    def symbol_for(self, params: Any) -> str:
        """The name of the C function that computes with these params."""
        if self.named is not None:
            return self.named(params)
        numbers = self.instance(params).values() if self.instance is not None else ()
        return "_".join([self.symbol, *(str(n) if n >= 0 else f"m{-n}" for n in numbers)])

    @property
    def file(self) -> str:
        """The kernel's file in runtime_c/kernels: there is a folder for each core, one for portable C, and one for code
        that several cores share.
        """
        return f"{self.folder or self.isa or PORTABLE}/{(self.template or self.symbol).removeprefix('ge_')}.c"

    def ctypes(self, op: KernelOp[Any]) -> Mapping[str, str]:
        """The names and C types of the constants, in the order of the signature."""
        return op.constants if self.constants is None else self.constants

    def packed(self, constants: Mapping[str, Array], params: Any) -> Mapping[str, Array]:
        """The constants of the op in the form that this kernel reads."""
        if self.arrange is not None:
            return self.arrange(constants, params)
        return {n: self.pack[n](array, params) if n in self.pack else array for n, array in constants.items()}


def of_element(text: str, element: str, symbol: str, **more: Any) -> Kernel:
    """A portable kernel with one source for all types. Its file includes element_<element>.h for s8, s16 or f32; or
    sums_<element>.h, which also has aw_s8 and s16_w16, for sums of products; or average_<element>.h for means of s8 or
    s16.
    """
    headers = {f"{words}_s8.h": f"{words}_{element}.h" for words in ("element", "sums", "average")}
    return Kernel(symbol, template=text, headers=headers, **more)


class KernelOp(ABC, Generic[Params]):
    """Integer arithmetic with params, which all kernels of this op compute bit for bit.

    The C signature of every kernel follows from this class:

        void ge_<op>(const <params struct> *p, const ge_rows *<input>..., const <ctype> *<constant>...,
                     const ge_rows *<output>, int32_t first_row, int32_t last_row, void *scratch)

    It computes output rows first_row <= y < last_row. A tensor is a ge_rows, which gives an address for each row.
    `requantization` is the law by which sums become outputs. An op whose kernels call ge_requantize exists once for
    each law (`in_all_modes`), under names that end in the law: conv2d_s8, conv2d_s8_glow, conv2d_s8_tflite. `kernels`
    of the class lists portable C only; `kernel_ops()` adds what the folders of glowembed/kernels offer.
    """

    name: str
    params: type[Params]
    """The dataclass that becomes the C struct. It is also the type argument of the class, so that mypy knows it."""
    inputs: ClassVar[tuple[str, ...]] = ("x",)
    constants: ClassVar[Mapping[str, str]] = {}
    """For each constant, in the order of the signature, the C type of its elements."""

    kernels: tuple[Kernel, ...] = ()
    requantization: Mode = "default"
    twin_of: str = ""
    """The name of the op in the default law, if this one was made from it by `in_all_modes`."""

    variadic: ClassVar[bool] = False
    """Whether the number of inputs differs from node to node; `inputs` is then empty."""

    unpacks: ClassVar[str] = ""
    """For an op with weights of four bits: the op with int8 weights, whose kernels it calls (kernels/shared/unpacked.py)."""

    of_table: ClassVar[bool] = False
    """For an op that unpacks: whether four bits stand for one of sixteen int8 numbers, and not for an int4 number."""

    of_vectors: ClassVar[bool] = False
    """For an op that unpacks: whether a row of the output is one vector, so that it can be computed in parts."""

    accumulates: ClassVar[bool] = False
    """Whether all output rows are the same memory: row 0 begins a sum and each later row adds to it, so rows must be
    computed in order.
    """

    into: ClassVar[str] = ""
    """For a copy: the name of the op with the same params that writes into an existing tensor, its first input."""

    def by_rows(self, node: Node, c: LowerContext) -> bool:
        """Add nodes that compute `node` from one input row after the other, without keeping the rows. Returns False if
        that is impossible.

        The bits are the same. The planner uses this where it saves memory; for example, a mean over the whole image
        becomes a sum that is updated row by row, and a division.
        """
        return False

    geometry: ClassVar[Geometry] = UNSPECIFIED
    """How the op works row by row. An op whose kernels compute the whole output at once has one row (`geometry.whole`)."""

    element_bytes: ClassVar[tuple[int, int]] = (1, 1)
    """The bytes of an element of the inputs, and of an element of the output."""

    def rows(self, p: Params) -> int:
        """The number of rows of the output; 1 if the op cannot be split."""
        return self.geometry.count(p)

    def row_bytes(self, p: Params) -> tuple[tuple[int, ...], int]:
        """The bytes of one row of each input, and of the output, as strides of ge_rows."""
        (inputs, output), (in_bytes, out_bytes) = self.geometry.elements(p), self.element_bytes
        return tuple(in_bytes * elements for elements in inputs), out_bytes * output

    def needs(self, p: Params, y: int) -> tuple[range, ...]:
        """For each input, the existing rows that output row `y` reads."""
        return self.geometry.needs(p, y)

    def weights_shape(self, p: Params) -> Shape:
        """For an op that unpacks: the shape of its weights."""
        raise NotImplementedError(f"{self.name} has no weights of four bits")

    @abstractmethod
    def int_ref(self, p: Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        """Compute the integer reference. Inputs are stored tensors of any shape; constants are not packed.

        Returns the stored output, flat or in any shape; the caller reshapes it to the shape of the value.
        """

    def int_refs(self, p: Params, runs: Sequence[Sequence[Array]], constants: Mapping[str, Array]) -> Sequence[Array]:
        """The integer references of several runs, as in `Op.float_refs`."""
        return [self.int_ref(p, inputs, constants) for inputs in runs]


def in_mode(op: str, mode: str) -> str:
    """The name of a kernel-level op in another law of requantization."""
    return op if mode == "default" else f"{op}_{mode}"


def in_all_modes(op: KernelOp[Params]) -> tuple[KernelOp[Params], ...]:
    """The op and its twins for the other laws, which have the same params and constants; their kernels include another ge_requantize."""
    return (op, *(_twin(op, mode) for mode in MODES if mode != "default"))


def law_number(mode: Mode) -> dict[str, int]:
    """The instance number that tells a kernel its law; empty for the default law, which the file itself includes."""
    return {} if mode == "default" else {"LAW": MODES.index(mode)}


def _twin(op: KernelOp[Params], mode: Mode) -> KernelOp[Params]:
    twin = copy.copy(op)
    twin.name, twin.requantization, twin.twin_of = in_mode(op.name, mode), mode, op.name
    twin.kernels = tuple(of_law(kernel, mode) for kernel in op.kernels)
    return twin


def of_law(kernel: Kernel, mode: Mode) -> Kernel:
    """The kernel of a twin, made from the C file of the default law."""
    return replace(kernel, symbol=in_mode(kernel.symbol, mode), template=kernel.template or kernel.symbol, law=mode)


KernelsOf = Callable[[Mode], Sequence[Kernel]]
"""A function that returns the kernels of a core for one op in a law."""


def only(*kernels: Kernel) -> KernelsOf:
    """Kernels that exist only in the default law."""
    return lambda mode: () if LAWS[mode].by_channel else kernels


def others(*kernels: Kernel) -> KernelsOf:
    """Kernels that exist only in the laws of other engines."""
    return lambda mode: kernels if LAWS[mode].by_channel else ()


def together(*parts: KernelsOf) -> KernelsOf:
    """The kernels of several functions, in this order."""
    return lambda mode: tuple(kernel for part in parts for kernel in part(mode))
