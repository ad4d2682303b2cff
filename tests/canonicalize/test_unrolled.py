"""Recurrent layers that exporters write step by step become one op; all values agree with onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import canonical, model, node, saved, weights

from glowembed.graph.ir import Graph
from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model

Nodes = list[onnx.NodeProto]
T, F, H = 4, 3, 5
LAYERS = ("LSTM", "GRU", "RNN")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Writer:
    """Writes a model; `step` names the values of one step."""

    def __init__(self) -> None:
        self.nodes: Nodes = []
        self.constants: dict[str, Any] = {}

    def add(self, op: str, inputs: str, output: str, **attrs: Any) -> str:
        self.nodes.append(node(op, inputs, output, **attrs))
        return output.split()[0]

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = value
        return name

    def split(self, x: str, count: int, axis: int = 1) -> list[str]:
        names = [f"{x}_{k}" for k in range(count)]
        self.add("Split", x, " ".join(names), axis=axis)
        return names

    def lstm(self, t: str, gates: list[str], c: str) -> tuple[str, str]:
        """Gates in the order i, f, g, o, as PyTorch has them."""
        i, f, o = (self.add("Sigmoid", gates[k], f"{n}{t}") for n, k in (("i", 0), ("f", 1), ("o", 3)))
        g = self.add("Tanh", gates[2], f"g{t}")
        self.add("Add", f"{self.add('Mul', f'{f} {c}', f'fc{t}')} {self.add('Mul', f'{i} {g}', f'ig{t}')}", f"c{t}")
        return self.add("Mul", f"{o} {self.add('Tanh', f'c{t}', f'tc{t}')}", f"h{t}"), f"c{t}"

    def gru(self, t: str, x: list[str], made: list[str], h: str, lerp: bool = False) -> str:
        """Gates in the order r, z, n, as PyTorch has them: (h - n) * z + n, or torch.lerp(n, h, z)."""
        r, z = (self.add("Sigmoid", self.add("Add", f"{made[k]} {x[k]}", f"p{k}{t}"), f"gate{k}{t}") for k in range(2))
        reset = self.add("Mul", f"{made[2]} {r}", f"rn{t}")
        n = self.add("Tanh", self.add("Add", f"{x[2]} {reset}", f"pn{t}"), f"n{t}")
        way = self.add("Sub", f"{h} {n}", f"d{t}")
        kept = self.add("Mul", f"{way} {z}", f"dz{t}")
        if not lerp:
            return self.add("Add", f"{kept} {n}", f"h{t}")
        self.constant("one", 1.0), self.constant("half", 0.5)
        rest = self.add("Mul", f"{way} {self.add('Sub', f'one {z}', f'u{t}')}", f"du{t}")
        near, far = self.add("Add", f"{n} {kept}", f"low{t}"), self.add("Sub", f"{h} {rest}", f"high{t}")
        return self.add("Where", f"{self.add('Less', f'{z} half', f'less{t}')} {near} {far}", f"h{t}")


def by_torch(kind: str, batch: int = 1, reverse: bool = False, tail: str = "") -> Writer:
    """torch.export of nn.LSTM, nn.GRU and nn.RNN: one product for the inputs of all steps, and a Split of it."""
    w, rows = Writer(), GATES[kind] * H
    w.constant("wi", weights(F, rows, seed=2)), w.constant("wh", weights(H, rows, seed=3))
    w.constant("bi", weights(rows, seed=4)), w.constant("bh", weights(rows, seed=5))
    h, c = (
        w.constant("h_0", np.zeros((1, batch, H), np.float32)),
        w.constant("c_0", np.zeros((1, batch, H), np.float32)),
    )
    x = w.add("Transpose", "x", "xt", perm=[1, 0, 2])
    x = w.add("Add", f"{w.add('MatMul', f'{x} wi', 'xw')} bi", "xb")
    if reverse:
        for name, value in (("last", [-1]), ("first", [-100]), ("zeroth", [0]), ("back", [-1])):
            w.constant(name, value)
        x = w.add("Slice", f"{x} last first zeroth back", "flipped")
    steps, states = w.split(x, T, 0), []
    for t, x in enumerate(steps):
        made = w.add("Add", f"{w.add('MatMul', f'{h} wh', f'hw{t}')} bh", f"hb{t}")
        if kind == "GRU":
            h = w.gru(f"{t}", w.split(x, 3, 2), w.split(made, 3, 2), h)
        elif kind == "RNN":
            h = w.add("Tanh", w.add("Add", f"{x} {made}", f"p{t}"), f"h{t}")
        else:
            h, c = w.lstm(f"{t}", w.split(w.add("Add", f"{made} {x}", f"p{t}"), 4, 2), c)
        states.append(h)
    stacked = w.add("Concat", " ".join(states[::-1] if reverse else states), "stacked", axis=0)
    w.add("Transpose", stacked, "y", perm=[1, 0, 2])
    return w


def by_cells(
    kind: str, batch: int = 1, given: bool = False, layers: int = 1, fed: bool = False, lerp: bool = False
) -> Writer:
    """A loop over nn.LSTMCell, nn.GRUCell or nn.RNNCell: a Gather and Gemms in each step, and only the last state is read. `fed`: each
    step after the first one reads a layer of the state.
    """
    w, rows = Writer(), GATES[kind] * H
    state: dict[tuple[str, int], str] = {}
    for k in range(layers):
        (
            w.constant(f"wi{k}", weights(rows, H if k else F, seed=2 + k)),
            w.constant(f"wh{k}", weights(rows, H, seed=13 + k)),
        )
        w.constant(f"bi{k}", weights(rows, seed=24 + k)), w.constant(f"bh{k}", weights(rows, seed=35 + k))
        for n in "hc":
            state[n, k] = f"{n}_0" if given else w.constant(f"{n}_0_{k}", np.zeros((batch, H), np.float32))
    for t in range(T):
        w.constant(f"t{t}", np.int64(t))
        x = w.add("Gather", f"x t{t}", f"x{t}", axis=1)
        if fed and t:
            w.constant("wd", weights(H, F, seed=70))
            x = w.add("Relu", w.add("MatMul", f"{state['h', 0]} wd", f"own{t}"), f"fed{t}")
        for k in range(layers):
            s, h = f"{t}_{k}", state["h", k]
            given_x = w.add("Gemm", f"{x} wi{k} bi{k}", f"xw{s}", transB=1)
            made = w.add("Gemm", f"{h} wh{k} bh{k}", f"hw{s}", transB=1)
            if kind == "GRU":
                x = w.gru(s, w.split(given_x, 3), w.split(made, 3), h, lerp)
            elif kind == "RNN":
                x = w.add("Tanh", w.add("Add", f"{given_x} {made}", f"p{s}"), f"h{s}")
            else:
                x, state["c", k] = w.lstm(s, w.split(w.add("Add", f"{given_x} {made}", f"p{s}"), 4), state["c", k])
            state["h", k] = x
    w.add("Relu", x, "y")
    return w


def by_keras(kind: str) -> Writer:
    """unroll=True: Keras's order of gates, a product for each gate of a GRU whose reset comes first, z * h + (1 - z) * n."""
    w = Writer()
    w.constant("zeros", np.zeros((1, H), np.float32)), w.constant("one", 1.0)
    for n, name in enumerate(("z", "r", "n") if kind == "GRU" else ("all",)):
        rows = H if kind == "GRU" else 4 * H
        w.constant(f"w{name}", weights(F, rows, seed=2 + n)), w.constant(f"u{name}", weights(H, rows, seed=12 + n))
        w.constant(f"b{name}", weights(rows, seed=22 + n))
    h, c = "zeros", "zeros"
    for t in range(T):
        for name, value in ((f"s{t}", [t]), (f"e{t}", [t + 1]), ("axis", [1])):
            w.constant(name, value)
        x = w.add("Squeeze", f"{w.add('Slice', f'x s{t} e{t} axis', f'xs{t}')} axis", f"x{t}")

        def gate(name: str, x: str, h: str, t: int = t) -> str:
            products = (
                f"{w.add('MatMul', f'{x} w{name}', f'x{name}{t}')} {w.add('MatMul', f'{h} u{name}', f'h{name}{t}')}"
            )
            return w.add("Add", f"{w.add('Add', products, f's{name}{t}')} b{name}", f"p{name}{t}")

        if kind == "LSTM":
            parts = w.split(gate("all", x, h), 4)
            h, c = w.lstm(f"{t}", parts, c)
            continue
        z, r = (w.add("Sigmoid", gate(name, x, h), f"{name}{t}") for name in "zr")
        n = w.add("Tanh", gate("n", x, w.add("Mul", f"{r} {h}", f"rh{t}")), f"n{t}")
        rest = w.add("Mul", f"{w.add('Sub', f'one {z}', f'o{t}')} {n}", f"on{t}")
        h = w.add("Add", f"{w.add('Mul', f'{z} {h}', f'zh{t}')} {rest}", f"h{t}")
    w.add("Relu", h, "y")
    return w


def joined(kind: str) -> Writer:
    """One product of the input and the state, joined, as the cells of TensorFlow 1 have it; the steps are inputs of the model."""
    w = Writer()
    (
        w.constant("w", weights(F + H, 4 * H)),
        w.constant("b", weights(4 * H, seed=2)),
        w.constant("zeros", np.zeros((1, H), np.float32)),
    )
    h, c = "zeros", "zeros"
    for t in range(T):
        both = w.add("Concat", f"x{t} {h}", f"xh{t}", axis=1)
        h, c = w.lstm(f"{t}", w.split(w.add("Gemm", f"{both} w b", f"p{t}"), 4), c)
    w.add("Add", f"{h} {c}", "y")
    return w


def by_hand(form: str, batch: int = 1) -> Writer:
    """A loop over nn.Linear and functions of torch: peepholes, a limit for the arguments of the gates, and gates that are one minus
    another one.
    """
    w = Writer()
    w.constant("wi", weights(4 * H, F, seed=2)), w.constant("bi", weights(4 * H, seed=4))
    (
        w.constant("wh", weights(H, 4 * H, seed=3)),
        w.constant("one", 1.0),
        w.constant("low", -0.3),
        w.constant("high", 0.3),
    )
    h, c = (w.constant(name, np.zeros((batch, H), np.float32)) for name in ("h_0", "c_0"))
    for n in "ifo":
        w.constant(f"p{n}", weights(H, seed=ord(n)))
    for t in range(T):
        w.constant(f"t{t}", np.int64(t))
        x = w.add("Gather", f"x t{t}", f"x{t}", axis=1)
        made = w.add(
            "Add", f"{w.add('Gemm', f'{x} wi bi', f'xw{t}', transB=1)} {w.add('MatMul', f'{h} wh', f'hw{t}')}", f"g{t}"
        )
        made = w.add("Clip", f"{made} low high", f"all{t}") if form == "limited" else made
        a = dict(zip("ifgo", w.split(made, 4), strict=True))
        if form == "limited one by one":
            a = {n: w.add("Clip", f"{one} low high", f"limited_{n}{t}") for n, one in a.items()}

        def gate(n: str, cell: str, t: int = t, a: dict[str, str] = a) -> str:
            if form == "peepholes":
                a[n] = w.add("Add", f"{a[n]} {w.add('Mul', f'p{n} {cell}', f'peep_{n}{t}')}", f"seen_{n}{t}")
            return w.add("Sigmoid", a[n], f"{n}{t}")

        f = gate("f", c)
        i = w.add("Sub", f"one {f}", f"i{t}") if form == "one minus" else gate("i", c)
        g = w.add("Tanh", a["g"], f"g_{t}")
        c = w.add("Add", f"{w.add('Mul', f'{f} {c}', f'fc{t}')} {w.add('Mul', f'{i} {g}', f'ig{t}')}", f"c{t}")
        h = w.add("Mul", f"{gate('o', c)} {w.add('Tanh', c, f'tc{t}')}", f"h{t}")
    w.add("Relu", h, "y")
    return w


def from_zeros() -> Writer:
    """A GRU that begins with zeros, of Linears that read the input and the state, joined: (1 - z) * h + z * n, which is h + z * (n - h)."""
    w = Writer()
    h = w.constant("h_0", np.zeros((1, H), np.float32))
    for n in "zrn":
        w.constant(f"w{n}", weights(H, F + H, seed=ord(n))), w.constant(f"b{n}", weights(H, seed=ord(n) + 1))
    for t in range(T):
        w.constant(f"t{t}", np.int64(t))
        x = w.add("Gather", f"x t{t}", f"x{t}", axis=1)
        both = w.add("Concat", f"{x} {h}", f"xh{t}", axis=-1)
        z, r = (w.add("Sigmoid", w.add("Gemm", f"{both} w{n} b{n}", f"p{n}{t}", transB=1), f"{n}{t}") for n in "zr")
        reset = w.add("Concat", f"{x} {w.add('Mul', f'{r} {h}', f'rh{t}')}", f"xr{t}", axis=-1)
        n = w.add("Tanh", w.add("Gemm", f"{reset} wn bn", f"pn{t}", transB=1), f"n{t}")
        h = w.add("Add", f"{h} {w.add('Mul', f'{z} ' + w.add('Sub', f'{n} {h}', f'd{t}'), f'zd{t}')}", f"h{t}")
    w.add("Relu", h, "y")
    return w


def chained(kind: str, layers: int = 1, directions: int = 1) -> Writer:
    """A call of nn.LSTM, nn.GRU or nn.RNN for each step, which takes the states of the call before it."""
    w, rows = Writer(), GATES[kind] * H
    names = "hc" if kind == "LSTM" else "h"
    attrs = {
        "hidden_size": H,
        **({"linear_before_reset": 1} if kind == "GRU" else {}),
        **({"direction": "bidirectional"} if directions == 2 else {}),
    }
    for k in range(layers):
        w.constant(f"w{k}", weights(directions, rows, H * directions if k else F, seed=2 + k))
        (
            w.constant(f"r{k}", weights(directions, rows, H, seed=13 + k)),
            w.constant(f"b{k}", weights(directions, 2 * rows, seed=24 + k)),
        )
    states = {
        (n, k): w.constant(f"{n}_{k}", np.zeros((directions, 1, H), np.float32)) for n in names for k in range(layers)
    }
    w.constant("merged", [1, 1, directions * H])
    for t in range(T):
        for name, value in ((f"s{t}", [t]), (f"e{t}", [t + 1]), ("zeroth", [0])):
            w.constant(name, value)
        x = w.add("Slice", f"x s{t} e{t} zeroth", f"x{t}")
        for k in range(layers):
            given = " ".join(states[n, k] for n in names)
            made = {n: f"{n}{t}_{k}" for n in names}
            w.add(kind, f"{x} w{k} r{k} b{k} _ {given}", f"all{t}_{k} {' '.join(made.values())}", **attrs)
            states |= {(n, k): name for n, name in made.items()}
            turned = w.add("Transpose", f"all{t}_{k}", f"turned{t}_{k}", perm=[0, 2, 1, 3])
            x = w.add("Reshape", f"{turned} merged", f"y{t}_{k}")
    w.add("Concat", " ".join(f"y{t}_{layers - 1}" for t in range(T)), "y", axis=0)
    return w


STEPS = {f"x{t}": (1, F) for t in range(T)}
FORMS: dict[str, tuple[Callable[[], Writer], dict[str, Any], dict[str, int]]] = {
    **{f"{k}, torch.export": (lambda k=k: by_torch(k), {"x": (1, T, F)}, {k: 1}) for k in LAYERS},
    **{f"{k}, torch.export, reverse": (lambda k=k: by_torch(k, 2, True), {"x": (2, T, F)}, {k: 1}) for k in LAYERS},
    **{f"cells of {k}": (lambda k=k: by_cells(k), {"x": (1, T, F)}, {k: 1}) for k in LAYERS},
    "cells of GRU, torch.lerp": (lambda: by_cells("GRU", lerp=True), {"x": (1, T, F)}, {"GRU": 1}),
    **{f"two layers of {k}": (lambda k=k: by_cells(k, 2, layers=2), {"x": (2, T, F)}, {k: 2}) for k in LAYERS},
    **{f"{k} with states": (lambda k=k: by_cells(k, given=True), {"x": (1, T, F), "h_0": (1, H)} | ({"c_0": (1, H)} if k == "LSTM" else {}), {k: 1}) for k in LAYERS},
    "LSTM, Keras": (lambda: by_keras("LSTM"), {"x": (1, T, F)}, {"LSTM": 1}),
    "GRU, Keras, reset first": (lambda: by_keras("GRU"), {"x": (1, T, F)}, {"GRU": 1}),
    **{f"LSTM, by hand, {form}": (lambda form=form: by_hand(form), {"x": (1, T, F)}, {"LSTM": 1}) for form in ("plain", "peepholes", "limited", "limited one by one", "one minus")},
    "LSTM, by hand, two samples": (lambda: by_hand("peepholes", 2), {"x": (2, T, F)}, {"LSTM": 1}),
    "GRU, by hand, from zeros": (from_zeros, {"x": (1, T, F)}, {"GRU": 1}),
    **{f"a call of {k} for each step": (lambda k=k: chained(k), {"x": (T, 1, F)}, {k: 1}) for k in LAYERS},
    **{f"calls of two layers of {k}": (lambda k=k: chained(k, 2), {"x": (T, 1, F)}, {k: 2}) for k in LAYERS},
    "LSTM, one product, the cell is read": (lambda: joined("LSTM"), STEPS, {"LSTM": 1, "LSTMMemory": 1}),
}  # fmt: skip


def proto(writer: Writer, inputs: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    read = {name for one in writer.nodes for name in one.input}
    constants = {n: a for n, a in writer.constants.items() if n in read}
    return model(writer.nodes, inputs, constants, outputs, opset=13)


def counted(graph: Graph) -> Counter[str]:
    return Counter(n.op for n in graph.nodes)


@pytest.mark.parametrize("form", FORMS)
def test_steps_become_one_op(form: str, tmp_path: Path) -> None:
    writer, inputs, wanted = FORMS[form]
    found = counted(canonical(proto(writer(), inputs), tmp_path))
    assert {op: n for op, n in found.items() if op in (*LAYERS, "LSTMMemory")} == wanted
    assert not found.keys() & {"Sigmoid", "Tanh", "Gemm", "Mul", "Slice"}, found


def test_all_states_of_several_samples_are_read(tmp_path: Path) -> None:
    """The states are stacked with another axis first than the layer's own."""
    found = counted(canonical(proto(by_torch("LSTM", 2, True), {"x": (2, T, F)}), tmp_path))
    assert found["Concat"] == 0 and found["LSTM"] == 1


@pytest.mark.parametrize("kind", LAYERS)
def test_a_first_state_that_was_learned_leaves_the_first_step_as_it_is(kind: str, tmp_path: Path) -> None:
    writer = by_cells(kind)
    writer.constants["h_0_0"] = weights(1, H, seed=50)
    found = counted(canonical(proto(writer, {"x": (1, T, F)}), tmp_path))
    assert found[kind] == 1 and found["Tanh"] == (2 if kind == "LSTM" else 1)


def test_all_states_are_read_as_one_vector(tmp_path: Path) -> None:
    writer = by_cells("LSTM", 2)
    writer.add("Concat", " ".join(f"h{t}_0" for t in range(T)), "z", axis=1)
    found = counted(canonical(proto(writer, {"x": (2, T, F)}, ("y", "z")), tmp_path))
    assert found["LSTM"] == 1 and not found["Concat"] and not found["Sigmoid"]


def test_calls_of_two_directions(tmp_path: Path) -> None:
    """With the states passed on, both directions of calls for a step each run forward."""
    found = counted(canonical(proto(chained("LSTM", directions=2), {"x": (T, 1, F)}), tmp_path))
    assert found["LSTM"] == 2 and not found["LSTMMemory"]


def test_gates_of_other_limits_stay_as_they_are(tmp_path: Path) -> None:
    writer = by_hand("limited one by one")
    for one in writer.nodes:
        if one.op_type == "Clip" and one.output[0] == "limited_o2":
            one.input[2] = "one"
    found = counted(canonical(proto(writer, {"x": (1, T, F)}), tmp_path))
    assert found["LSTM"] == 1 and found["Sigmoid"] == 6, "two steps before that one, and one behind it"


def test_some_states_are_read(tmp_path: Path) -> None:
    writer = by_cells("GRU")
    writer.add("Add", "h1_0 h3_0", "z")
    found = counted(canonical(proto(writer, {"x": (1, T, F)}, ("y", "z")), tmp_path))
    assert found["GRU"] == 1 and found["Slice"] == 2 and not found["Sigmoid"]


def test_steps_whose_cell_is_read_stay_as_they_are(tmp_path: Path) -> None:
    writer = by_cells("LSTM")
    found = counted(canonical(proto(writer, {"x": (1, T, F)}, ("y", "c1_0")), tmp_path))
    assert not found["LSTM"] and found["Sigmoid"] == 3 * T


def test_steps_of_other_weights_stay_as_they_are(tmp_path: Path) -> None:
    writer = by_cells("RNN")
    writer.constants["other"] = weights(H, H, seed=60)
    for one in writer.nodes[::-1]:
        if one.op_type == "Gemm" and one.input[1] == "wh0":
            one.input[1] = "other"
            break
    found = counted(canonical(proto(writer, {"x": (1, T, F)}), tmp_path))
    assert found["RNN"] == 1 and found["Tanh"] == 1, "the last step is another layer"


def test_steps_whose_input_depends_on_the_state_stay_as_they_are(tmp_path: Path) -> None:
    """A decoder reads its own output."""
    found = counted(canonical(proto(by_cells("LSTM", fed=True), {"x": (1, T, F)}), tmp_path))
    assert not found["LSTM"] and found["Tanh"] == 2 * T


@pytest.mark.parametrize("kind", LAYERS)
def test_in_integers(kind: str, tmp_path: Path) -> None:
    path, rng = saved(proto(by_torch(kind), {"x": (1, T, F)}), tmp_path), np.random.default_rng(3)
    np.savez(tmp_path / "data.npz", x=rng.uniform(-1, 1, (40, 1, T, F)).astype(np.float32))
    options = CompileOptions(target="cortex-m4")
    bundle = compile_model(path, tmp_path / "bundle", options, data=tmp_path / "data.npz")
    assert [n.op for n in bundle.graph.nodes if n.op != "view"] == ["recurrent_s8"]
