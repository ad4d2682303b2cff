"""Finds the states of a model: outputs whose value is an input of the next run.

In: the graph of a model, the pairs that its file names, and those that the user asks for. Out: the graph with its
states. Raises UsageError, which names the pair and what does not fit, for a pair that cannot be a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Graph
from glowembed.graph.notes import Note
from glowembed.graph.states import State
from glowembed.options.words import NO_STATES

SPELLINGS = (
    ("state_in", "state_out"), ("in_state", "out_state"), ("input_state", "output_state"), ("h0", "hn"), ("c0", "cn"),
    ("h_0", "h_n"), ("c_0", "c_n"), ("h_in", "h_out"), ("c_in", "c_out"), ("initial_h", "Y_h"), ("initial_c", "Y_c"),
    ("state", "stateN"), ("state", "new_state"), ("state", "next_state"), ("state", "state_out"),
)  # fmt: skip
"""Pairs of words in the names of an input and of the output that is its next value."""

CACHE = "_cache"
NEXT = ("new_{}", "{}_new", "next_{}", "{}_next", "out_{}", "{}_out", "updated_{}", "{}_updated", "present_{}")
"""The patterns by which exporters name the new value of an input whose name ends in CACHE."""

RECURRENT = {"LSTM": ((5, 1), (6, 2)), "GRU": ((5, 1),), "RNN": ((5, 1),)}
"""For each recurrent ONNX operator, the inputs with the first states and the outputs with the last ones."""


def with_states(graph: Graph, file: Sequence[State], asked: Mapping[str, str] | None) -> Graph:
    """The graph with its states. asked: the requested states (output -> input), or NO_STATES for none at all; otherwise
    the states that `file` names, or that are recognized by their names, are added.
    """
    if asked == NO_STATES:
        return graph
    found = [_checked(graph, State(output, given)) for output, given in (asked or {}).items()]
    for state in (*file, *_named(graph)):
        if _is_new(state, found) and not _misfit(graph, state):
            found.append(state)
    if found and len(found) == len(graph.inputs):
        return _all_states(graph, found, bool(asked))
    notes = [Note("state", f"{s.input!r} is the {s.output!r} of the run before, which the bundle keeps") for s in found]
    return replace(graph, states=tuple(found), assumed=(*graph.assumed, *notes))


def recurrent(nodes: Sequence[object]) -> Iterator[State]:
    """The states of recurrent nodes of an ONNX graph, whose first and last values have names."""
    for node in nodes:
        kind, inputs, outputs = (getattr(node, name) for name in ("op_type", "input", "output"))
        for first, last in RECURRENT.get(str(kind), ()):
            if len(inputs) > first and len(outputs) > last and inputs[first] and outputs[last]:
                yield State(outputs[last], inputs[first])


def _all_states(graph: Graph, found: Sequence[State], asked: bool) -> Graph:
    """The graph if every input could be a state: it gets no states, unless the user asked for some."""
    every = f"every input of the model would be a state ({', '.join(s.input for s in found)})"
    if asked:
        raise UsageError(
            f"{every}, and a network needs one that the caller gives: name the real pairs with --state OUT=IN, or none with --state none"
        )
    note = Note("state", f"{every}, and a network needs one that the caller gives; so all stay inputs and outputs")
    return replace(graph, assumed=(*graph.assumed, note))


def _named(graph: Graph) -> Iterator[State]:
    """The pairs that are recognized as states by their names."""
    for name in graph.inputs:
        wanted = [name.replace(old, new) for old, new in SPELLINGS if old in name]
        wanted += [form.format(name) for form in NEXT] if name.endswith(CACHE) else []
        yield from (State(output, name) for output in wanted if output in graph.outputs)


def _is_new(state: State, found: Sequence[State]) -> bool:
    return all(state.input != other.input and state.output != other.output for other in found)


def _checked(graph: Graph, state: State) -> State:
    if state.input not in graph.inputs:
        raise unknown_name("input of the model for --state OUT=IN:", state.input, graph.inputs)
    if state.output not in graph.outputs:
        raise unknown_name("output of the model for --state OUT=IN:", state.output, graph.outputs)
    if reason := _misfit(graph, state):
        raise UsageError(
            f"--state {state.output}={state.input}: {reason}; a state is one tensor before and after a run"
        )
    return state


def _misfit(graph: Graph, state: State) -> str:
    """The reason why the two cannot be a state; "" if they can."""
    if state.input not in graph.inputs or state.output not in graph.outputs or state.output in graph.inputs:
        return "they are not an input and an output that the network computes"
    old, new = graph.values[state.input], graph.values[state.output]
    if old.shape != new.shape:
        return f"{old.name!r} has shape {list(old.shape)}, {new.name!r} has {list(new.shape)}"
    if old.dtype != new.dtype or old.model_dtype != new.model_dtype:
        kinds = [value.model_dtype or value.dtype for value in (old, new)]
        return f"{old.name!r} is {kinds[0]}, {new.name!r} is {kinds[1]}"
    if new.const is not None or new.found is not None:
        return f"{new.name!r} is a constant, or its size depends on data"
    return ""
