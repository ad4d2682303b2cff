"""The builder that `import_onnx` uses. It keeps values with shapes, nodes in order, and unique names.

In: calls of the importer and of the op files, in order of execution. Out: a Graph. It knows no file format and no op
except Transpose. If a derived name would equal a name of the model, a prime is appended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.graph import limits
from glowembed.graph.ir import Array, Const, Graph, Node, Shape, Value
from glowembed.graph.layout import Perm, compose, inverse, is_identity, name_permuted, permuted
from glowembed.graph.op import Malformed, Refused, is_a
from glowembed.graph.registry import ops
from glowembed.graph.spatial import channels_last
from glowembed.nest import retype, scaled
from glowembed.nest.pointwise import function_of
from glowembed.nest.program import Program, copy_program
from glowembed.ops.layout import Reshape, Transpose
from glowembed.ops.nest import params_of

MAX_ELEMENTS = limits.ELEMENTS
"""The most elements of a tensor, so that an int32 offset can reach all of them."""


class GraphBuilder:
    """Implements op.Builder. reserved: all names of the model, which derived values must not take."""

    def __init__(self, reserved: Collection[str]) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self._reserved = set(reserved)
        self._actual: dict[str, str] = {}
        self._permuted: dict[tuple[str, Perm], str] = {}
        self._origin: dict[str, tuple[str, Perm]] = {}
        self._node_names: set[str] = set()
        self._current = ("", frozenset[str]())

    def start(self, origin: str, outputs: Iterable[str]) -> None:
        """Declare that the following nodes come from the ONNX node named `origin` with these outputs."""
        self._current = (origin, frozenset(outputs))

    def activation(self, name: str, shape: Shape, dtype: str = "float32") -> None:
        """Add a value that no node makes, such as an input of the graph."""
        self.values[name] = Value(name, shape, dtype)

    def shape(self, name: str) -> Shape:
        return self.values[name].shape

    def dtype(self, name: str) -> str:
        return self.values[name].dtype

    def const(self, name: str) -> Array | None:
        const = self.values[name].const
        return None if const is None else const.materialize()

    def delayed(self, name: str) -> Const:
        const = self.values[name].const
        assert const is not None, f"{name} is not a constant"
        return const

    def constant(self, name: str, const: Const) -> str:
        """Add a constant that an op derives."""
        if name not in self._actual:
            self._actual[name] = self.fresh(name)
            self._set_constant(self._actual[name], const)
        return self._actual[name]

    def model_constant(self, name: str, array: Array) -> None:
        """Add a constant under its name in the model."""
        self._set_constant(name, Const(array))

    def stored_constant(self, name: str, const: Const) -> None:
        """Add a constant that stores integers (Const.grid) under its name in the model."""
        self._set_constant(name, const)

    def _set_constant(self, name: str, const: Const) -> None:
        array = const.materialize()
        self.values[name] = Value(name, array.shape, dtype=str(array.dtype), const=const)

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], output: str) -> str:
        shapes = ops()[op].infer(attrs, [self.values[name].shape for name in inputs])
        return self._made(op, inputs, attrs, output, tuple(int(d) for d in shapes[0]), "float32")

    def nest(
        self, onnx: str, inputs: Sequence[str], program: Program, output: str, exact: bool = True,
        instead: tuple[str, Mapping[str, Any]] | None = None, on_integers: bool = False,
    ) -> str:  # fmt: skip
        """Add a node that computes a program of loop nests. If not `exact`, it is a node that can be computed in
        integers, provided that the program is a function of one number, or only chooses numbers, or may compute
        `on_integers`. instead: another op and its attrs, in addition to the program.
        """
        attrs = {"onnx": onnx, "params": params_of(program)}
        if not exact and instead is not None:
            op, more = instead
            return self._made(op, inputs, {**attrs, **more}, output, program.output.shape, program.output.dtype)
        x = next((name for name in inputs if self.values[name].const is None), None)
        if not exact and x is not None and (function := self._function(inputs, program)) is not None:
            return self._add_function(x, {**attrs, "params": params_of(function)}, program, output)
        filled = all(tensor.size for tensor in program.inputs)
        op = "Nest"
        if not exact and filled and retype.chooses(program):
            op = "Choice"
        elif not exact and filled and on_integers and scaled.reads_reals(program, self._arrays(inputs, program)):
            op = "Arithmetic"
        return self._made(op, inputs, attrs, output, program.output.shape, program.output.dtype, least=0)

    def _add_function(self, x: str, attrs: Mapping[str, Any], program: Program, output: str) -> str:
        """Add a function of each element of `x`. The program may have another shape for its output."""
        shape = program.output.shape
        if shape == self.shape(x):
            return self.add("Function", [x], attrs, output)
        elements = x if retype.is_copy(program) else self.add("Function", [x], attrs, f"{output}/elements")
        return self.add("Reshape", [elements], {"shape": shape}, output)

    def _function(self, inputs: Sequence[str], program: Program) -> Program | None:
        """The program as a function of one number, or None if it is not one."""
        known = {name: array for name, array in self._arrays(inputs, program).items() if array.size == 1}
        return None if program.output.size == 0 else function_of(program, known)

    def _arrays(self, inputs: Sequence[str], program: Program) -> dict[str, Array]:
        """The constants among the inputs, by tensor name."""
        named = [(t.name, self.values[name].const) for name, t in zip(inputs, program.inputs, strict=True)]
        return {name: const.materialize() for name, const in named if const is not None}

    def reserve(self, name: str) -> str:
        """A name that is not in use, and that nothing else will get."""
        name = self.fresh(name)
        self._reserved.add(name)
        return name

    def copy_constant(self, name: str, array: Array) -> None:
        """Turn a constant into a value that a node copies from the same constant under another name."""
        inner = self.fresh(f"{name}/constant")
        self.values[inner] = Value(inner, array.shape, array.dtype.name, const=Const(array))
        del self.values[name]
        self.nodes = [replace(n, inputs=tuple(inner if i == name else i for i in n.inputs)) for n in self.nodes]
        self.start(name, (name,))
        self.nest("Constant", [inner], copy_program(array.shape, array.dtype.name), name)

    def _made(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Any],
        output: str,
        shape: Shape,
        dtype: str,
        least: int = 1,
    ) -> str:
        """least: the smallest size of an axis."""
        if any(d < least for d in shape):
            raise Malformed(
                f"its output {output!r} has the empty shape {list(shape)}", "check the shapes of the inputs"
            )
        if prod(shape) > MAX_ELEMENTS:
            raise Refused(
                f"its output {output!r} of shape {list(shape)} has {prod(shape)} elements, more than {MAX_ELEMENTS}"
            )
        name = output if output in self._current[1] else self.fresh(output)
        self.values[name] = Value(name, shape, dtype)
        self.nodes.append(Node(self._node_name(name), op, tuple(inputs), (name,), dict(attrs), (self._current[0],)))
        return name

    def transpose(self, name: str, perm: Sequence[int], output: str | None = None) -> str:
        perm = tuple(int(axis) for axis in perm)
        if self.values[name].const is not None and output is None:
            return self._permuted_constant(name, perm)
        if output is None and is_identity(perm):
            return name
        base, first = self._origin.get(name, (name, tuple(range(len(perm)))))
        total = compose(first, perm)
        if output is None:
            known = base if is_identity(total) else self._permuted.get((base, total))
            return known if known is not None else self._add_transpose(name, perm, None, base, total)
        return self._add_transpose(name, perm, output, base, total)

    def _add_transpose(self, name: str, perm: Perm, output: str | None, base: str, total: Perm) -> str:
        wanted, layout = name_permuted(self.values[name], perm)
        output = self.add("Transpose", [name], {"perm": perm}, wanted if output is None else output)
        self._permuted.setdefault((base, total), output)
        self._origin[output] = (base, total)
        if output == wanted:
            self.values[output] = replace(self.values[output], layout=layout)
        self._lay_out(name, output, perm)
        return output

    def _lay_out(self, name: str, output: str, perm: Perm) -> None:
        """Record on `y/channels_last`, when it is transposed to `y`, that it is `y` in another order of axes."""
        back = inverse(perm)
        plain = self.values[name].layout is None and self.values[output].layout is None
        if plain and name == name_permuted(self.values[output], back)[0]:
            self.values[name] = replace(self.values[name], layout=back)

    def _permuted_constant(self, name: str, perm: Perm) -> str:
        if is_identity(perm):
            return name
        wanted, _ = name_permuted(self.values[name], perm)
        step = f"transpose({','.join(map(str, perm))})"
        return self.constant(wanted, self.delayed(name).then(step, lambda array: np.transpose(array, perm)))

    def fresh(self, name: str) -> str:
        """The name, with as many primes as are needed to make it unique."""
        while name in self._reserved or name in self.values:
            name += "'"
        return name

    def _node_name(self, output: str) -> str:
        """The name of the ONNX node, for the first node that makes one of its outputs, or else a derived name."""
        origin, outputs = self._current
        helper = not any(output == known or output.startswith(f"{known}/") for known in outputs)
        name = output if helper else origin
        if name in self._node_names:
            name = f"{name}/{output.removeprefix(name).strip('/')}"
        while name in self._node_names:
            name += "'"
        self._node_names.add(name)
        return name

    def rollback(self, marks: tuple[int, set[str]]) -> None:
        """Remove everything that was added since `mark`, because the node was refused in the middle."""
        del self.nodes[marks[0] :]
        for name in set(self.values) - marks[1]:
            del self.values[name]
        gone = {key for key, name in self._permuted.items() if name not in self.values}
        self._permuted = {key: name for key, name in self._permuted.items() if key not in gone}
        self._origin = {name: origin for name, origin in self._origin.items() if name in self.values}
        self._actual = {key: name for key, name in self._actual.items() if name in self.values}

    def mark(self) -> tuple[int, set[str]]:
        return len(self.nodes), set(self.values)

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str], sha256: str) -> Graph:
        """The graph without nodes whose outputs nothing reads."""
        needed, live = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                live.append(node)
        graph = Graph(name, (), self.values, tuple(inputs), tuple(outputs), sha256)
        return graph.with_nodes(reversed(live))


def inputs_channels_last(graph: Graph) -> Graph:
    """The graph in which every input in N, C, spatial order, except states, is replaced by a channels-last one of the
    same name.
    """
    for name in graph.free_inputs:
        rank = len(graph.values[name].shape)
        if rank in (3, 4) and _feeds_channels_last(graph, name, channels_last(rank)):
            graph = _replace_input(graph, graph.values[name], channels_last(rank))
    return graph


def _feeds_channels_last(graph: Graph, name: str, perm: tuple[int, ...]) -> bool:
    """Whether the first op that depends on the order of axes reads `name` transposed to channels-last."""
    for node in graph.consumers()[name]:
        if is_a(node, Transpose):
            return tuple(node.attrs["perm"]) == perm
        if _lets_pass(graph, node, perm):
            return _feeds_channels_last(graph, node.outputs[0], perm)
    return False


def _lets_pass(graph: Graph, node: Node, perm: tuple[int, ...]) -> bool:
    shape = graph.values[node.outputs[0]].shape
    if is_a(node, Reshape):
        return graph.values[node.inputs[0]].shape == shape
    return len(shape) == len(perm) and ops()[node.op].permute(node.attrs, inverse(perm)) is not None


def _replace_input(graph: Graph, value: Value, perm: tuple[int, ...]) -> Graph:
    inner = replace(value, name=f"{value.name}/channels_first")
    taken = {*graph.values, *(node.name for node in graph.nodes)}
    while inner.name in taken:
        inner = replace(inner, name=inner.name + "'")
    outer = replace(value, shape=permuted(value.shape, perm), layout=perm)
    back = Node(inner.name, "Transpose", (value.name,), (inner.name,), {"perm": inverse(perm)}, (value.name,))
    body = [replace(n, inputs=tuple(inner.name if i == value.name else i for i in n.inputs)) for n in graph.nodes]
    return graph.with_nodes([back, *body], {value.name: outer, inner.name: inner})
