"""Translates IF and WHILE, whose subgraphs become the inner graphs of If and Loop.

A WHILE needs a number of steps that is known when the model is compiled. It is found by running the condition, and what
the body does to scalars that begin as constants. Keras writes its recurrent layers so: a loop over counters, which
joins each new row with slices of the rows before and after it; this becomes the update of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, TensorProto, helper

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.read.tflite.flat import Operator, Subgraph
from glowembed.read.tflite.translate import DOMAIN, Call, Translation, refusal

MOST_STEPS = 10_000
MOST_NAMES = 1_000_000

SCALARS: Mapping[str, Callable[..., Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "LESS": np.less, "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal, "EQUAL": np.equal, "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or, "LOGICAL_NOT": np.logical_not, "MINIMUM": np.minimum,
    "MAXIMUM": np.maximum,
}  # fmt: skip
"""What may compute a condition, and the counters that it reads."""


def _subgraph(c: Call, option: str, inputs: int, outputs: int) -> tuple[int, Subgraph]:
    """The number of a subgraph and the subgraph itself, which must have so many inputs and outputs."""
    number = c.option(option, -1)
    if not 0 < number < len(c.t.model.subgraphs):
        raise Refused(f"it runs subgraph {number} of {len(c.t.model.subgraphs)}", "check the file")
    found = c.t.model.subgraphs[number]
    if len(found.inputs) != inputs or len(found.outputs) != outputs:
        raise Refused(
            f"{found.name!r} has {len(found.inputs)} inputs and {len(found.outputs)} outputs, not {inputs} and {outputs}",
            "check the file",
        )
    return number, found


def _graph(c: Call, number: int, given: Mapping[int, str], outputs: Sequence[int]) -> tuple[GraphProto, list[str]]:
    """A subgraph as an inner graph without inputs, and the names of these outputs. given: the names of its inputs."""
    if any(c.t.is_quantized(i) for i in (*c.operator.inputs, *c.operator.outputs) if i >= 0):
        raise Refused("quantized numbers in a branch or a loop", "convert the model with float activations")
    if number in c.t.inside:
        raise Refused(f"subgraph {number} runs itself", "write a loop")
    if len(c.t.taken) > MOST_NAMES:
        raise Refused(f"its subgraphs expand to more than {MOST_NAMES:,} tensors", "check the file")
    inner = Translation(c.t.path, c.t.model, number, c.t.taken, given, f"{c.name}/", c.t.inside)
    inner.subgraph = with_updates(inner.subgraph)
    for operator in inner.subgraph.operators:
        inner.add(operator)
    for node in inner.nodes:
        if node.domain == DOMAIN:
            reason, hint = refusal(node)
            raise Refused(f"{node.op_type} {node.name!r} inside: {reason}", hint)
    names = [inner.fresh(f"{inner.names[index]}/out") for index in outputs]
    for index, name in zip(outputs, names, strict=True):
        inner.node("Identity", [inner.real(index)], [name], name)
    infos = [inner.info(index, name) for index, name in zip(outputs, names, strict=True)]
    return helper.make_graph(inner.nodes, inner.subgraph.name or f"subgraph_{number}", [], infos,
                             [*inner.initializers.values()]), names  # fmt: skip


def branch(c: Call) -> None:
    """IF: input 0 decides which subgraph gets the other inputs."""
    count, outputs, graphs = len(c.operator.inputs) - 1, c.operator.outputs, {}
    for role, option in (("then_branch", "ThenSubgraphIndex"), ("else_branch", "ElseSubgraphIndex")):
        number, subgraph = _subgraph(c, option, count, len(outputs))
        given = {index: c.real(1 + i) for i, index in enumerate(subgraph.inputs)}
        graphs[role], _ = _graph(c, number, given, subgraph.outputs)
    c.t.node("If", [c.t.stored(c.index(0))], [c.t.names[index] for index in outputs], c.name, **graphs)


def loop(c: Call) -> None:
    """WHILE: the body computes all values again as long as the condition holds."""
    count = len(c.operator.inputs)
    _, condition = _subgraph(c, "CondSubgraphIndex", count, 1)
    number, body = _subgraph(c, "BodySubgraphIndex", count, count)
    if len(c.operator.outputs) != count:
        raise Refused(f"{len(c.operator.outputs)} outputs for {count} values", "check the file")
    steps = trip_count([c.tensor(i).array for i in range(count)], condition, body)
    carried = [i for i in range(count) if body.outputs[i] != body.inputs[i]]
    given = {index: c.t.fresh(f"{c.name}/{i}") if i in carried else c.real(i) for i, index in enumerate(body.inputs)}
    graph, _ = _graph(c, number, given, [body.outputs[i] for i in carried])
    step, holds = c.t.fresh(f"{c.name}/step"), c.t.fresh(f"{c.name}/holds")
    graph.input.extend(
        [
            helper.make_tensor_value_info(step, TensorProto.INT64, []),
            helper.make_tensor_value_info(holds, TensorProto.BOOL, []),
        ]
    )
    graph.input.extend(c.t.info(c.index(i), given[body.inputs[i]]) for i in carried)
    goes_on = c.t.fresh(f"{c.name}/goes_on")
    graph.node.append(helper.make_node("Identity", [holds], [goes_on], goes_on))
    graph.output.insert(0, helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []))
    outputs = [c.t.names[c.operator.outputs[i]] for i in carried]
    trips = c.constant("steps", steps)
    c.t.node("Loop", [trips, "", *(c.real(i) for i in carried)], outputs, c.name, body=graph)
    for i in range(count):
        if i not in carried:
            output = c.t.names[c.operator.outputs[i]]
            c.t.node("Identity", [c.real(i)], [output], output)


def trip_count(starts: Sequence[Array | None], condition: Subgraph, body: Subgraph) -> int:
    """How often the body runs. starts: the constants among the values at the start. Raises Refused if that depends on
    data.
    """
    values = [v if v is not None and v.size == 1 else None for v in starts]
    for steps in range(MOST_STEPS + 1):
        (holds,) = _scalars(condition, values)
        if holds is None:
            raise Refused("the number of its steps depends on data", "loop for a fixed number of steps")
        if not holds.reshape(-1)[0]:
            return steps
        values = _scalars(body, values)
    raise Refused(f"it has more than {MOST_STEPS:,} steps", "loop less often")


def _scalars(subgraph: Subgraph, values: Sequence[Array | None]) -> list[Array | None]:
    """The outputs of a subgraph that follow from constants; None for others."""
    known = {i: t.array for i, t in enumerate(subgraph.tensors) if t.array is not None and t.array.size == 1}
    known |= {i: v for i, v in zip(subgraph.inputs, values, strict=True) if v is not None}
    for operator in subgraph.operators:
        if operator.kind in SCALARS and len(operator.outputs) == 1 and all(i in known for i in operator.inputs):
            (made,) = operator.outputs
            with np.errstate(over="ignore"):
                found = SCALARS[operator.kind](*(known[i] for i in operator.inputs))
            known[made] = np.asarray(found, subgraph.tensors[made].dtype)
    return [known.get(i) for i in subgraph.outputs]


def with_updates(subgraph: Subgraph) -> Subgraph:
    """The subgraph with DYNAMIC_UPDATE_SLICE in place of the rows before a row, the row, and the rows after it joined
    along axis 0.
    """
    made = {index: operator for operator in subgraph.operators for index in operator.outputs}
    operators = [_as_update(subgraph, made, operator) or operator for operator in subgraph.operators]
    read = {i for operator in operators for i in operator.inputs} | set(subgraph.outputs)
    while len(used := [o for o in operators if read & set(o.outputs)]) < len(operators):
        operators, read = used, {i for operator in used for i in operator.inputs} | set(subgraph.outputs)
    return replace(subgraph, operators=tuple(operators))


def _as_update(subgraph: Subgraph, made: Mapping[int, Operator], joined: Operator) -> Operator | None:
    if joined.kind != "CONCATENATION" or len(joined.inputs) != 3 or joined.options.get("Axis"):
        return None
    before, row, after = joined.inputs
    first, last = made.get(before), made.get(after)
    if first is None or last is None or {first.kind, last.kind} != {"SLICE"} or first.inputs[0] != last.inputs[0]:
        return None
    rows = first.inputs[0]
    shape, start, size = subgraph.tensors[rows].shape, made.get(first.inputs[2]), made.get(last.inputs[1])
    fits = subgraph.tensors[row].shape == (1, *shape[1:]) and subgraph.tensors[joined.outputs[0]].shape == shape
    if not fits or start is None or size is None or {start.kind, size.kind} != {"CONCATENATION"}:
        return None
    at, next_row = (_counter(made, operator.inputs[0]) for operator in (start, size))
    step = made.get(next_row)
    is_next = step is not None and step.kind == "ADD" and step.inputs[0] == at and _is(subgraph, step.inputs[1:], 1)
    ends = _is(subgraph, [first.inputs[1]], 0) and _is(subgraph, [last.inputs[2]], -1)
    whole = _is(subgraph, start.inputs[1:], -1) and _is(subgraph, size.inputs[1:], 0)
    if not (is_next and ends and whole):
        return None
    return Operator("DYNAMIC_UPDATE_SLICE", False, (rows, row, at), joined.outputs, {"Row": 1})


def _counter(made: Mapping[int, Operator], index: int) -> int:
    """The scalar that a Reshape made a vector."""
    operator = made.get(index)
    return operator.inputs[0] if operator is not None and operator.kind == "RESHAPE" else index


def _is(subgraph: Subgraph, indices: Sequence[int], number: int) -> bool:
    """Whether tensors are constants, with this number everywhere."""
    arrays = [subgraph.tensors[i].array for i in indices]
    return all(a is not None and bool((a == number).all()) for a in arrays)


def update(c: Call) -> None:
    """DYNAMIC_UPDATE_SLICE: write a part into a tensor, at a place that may be computed."""
    shape, part = c.shape(0), c.shape(1)
    start = c.t.stored(c.index(2))
    if c.option("Row") or (part[:1] == (1,) and part[1:] == shape[1:]):
        row = start if c.option("Row") else c.add("Gather", [start, c.constant("axis", 0)], "row", axis=0)
        place = c.reshaped(row, (1, 1), "place")
        c.done("ScatterND", [c.real(0), c.add("Cast", [place], "row64", to=TensorProto.INT64), c.real(1)])
        return
    places = np.stack(list(np.indices(part)), axis=-1)
    room = np.asarray(shape) - part
    low = c.add("Max", [c.add("Cast", [start], "start64", to=TensorProto.INT64), c.constant("first", 0)], "from")
    inside = c.add("Min", [low, c.constant("room", room)], "inside")
    c.done("ScatterND", [c.real(0), c.add("Add", [c.constant("places", places), inside], "at"), c.real(1)])


OPERATORS: dict[str, Callable[[Call], None]] = {"DYNAMIC_UPDATE_SLICE": update, "IF": branch, "WHILE": loop}
