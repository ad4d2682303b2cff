"""Writes a kernel-level graph to the folder reference/ of a bundle, and reads it back, so that a bundle carries its own
reference.

graph.json contains the structure, constants.npz the stored constants.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from glowembed.errors import UsageError
from glowembed.files import documents
from glowembed.files.arrays import open_npz
from glowembed.files.source import read_bytes
from glowembed.graph.cstruct import c_initialiser
from glowembed.graph.ir import Array, Const, Graph, GraphError, Node, QType, Value, verify
from glowembed.graph.registry import kernel_ops
from glowembed.graph.states import State, Stream
from glowembed.nest.dtypes import COMPUTED

WINDOW = "window_"
"""The prefix of the files of the network on windows from which a stream was made."""


def files(graph: Graph, prefix: str = "") -> dict[str, bytes]:
    """The content of each file by name. The same graph gives the same bytes."""
    return {
        f"reference/{prefix}graph.json": (json.dumps(_structure(graph), indent=1) + "\n").encode("ascii"),
        f"reference/{prefix}constants.npz": _constants(graph),
    }


def read(path: Path, sums: Mapping[str, str] = MappingProxyType({}), prefix: str = "") -> Graph:
    """The graph of the bundle in a folder or, with the prefix WINDOW, the graph of a stream's windows.

    sums: the SHA-256 of files of the bundle, by name, as in its manifest. Raises UsageError if a file differs from
    them, is missing or is damaged.
    """
    for name, known in sums.items():
        if hashlib.sha256(read_bytes(path / name)).hexdigest() != known:
            raise UsageError(
                f"{path / name} is not what was compiled: it was changed or damaged; compile the model again"
            )
    where = path / "reference" / f"{prefix}graph.json"
    data = documents.read_json(where)
    documents.check(data, SCHEMA, str(where))
    with open_npz(path / "reference" / f"{prefix}constants.npz") as archive:
        arrays = dict(archive)
    texts = sorted(key for key, array in arrays.items() if array.dtype.kind not in "biuf")
    if texts:
        raise UsageError(
            f"{path / 'reference' / f'{prefix}constants.npz'}: {texts[0]} does not hold numbers; compile the model again"
        )
    try:
        values = {v["name"]: _value(v, arrays) for v in data["values"]}
        nodes = tuple(_node(n, arrays) for n in data["nodes"])
        states = tuple(State(str(pair["output"]), str(pair["input"])) for pair in data.get("states", ()))
        graph = Graph(data["name"], nodes, values, tuple(data["inputs"]), tuple(data["outputs"]), states=states)
        graph = replace(graph, stream=Stream(**data["stream"]) if "stream" in data else None)
        _check_states(verify(graph))
    except (ValueError, KeyError, TypeError, GraphError) as error:
        raise UsageError(f"{where} contradicts itself ({error}); compile the model again") from error
    return graph


def _check_states(graph: Graph) -> None:
    """Raise ValueError unless the states are pairs of an input and an output of the same form, and the stream is
    valid.
    """
    stream = graph.stream
    if stream is not None:
        numbers = (stream.axis, stream.rows, stream.hop)
        if stream.input not in graph.inputs or not all(type(n) is int and 0 < n < 2**31 for n in numbers):
            raise ValueError(f"the stream {stream.input!r:.60} is none")
    for state in graph.states:
        old, new = graph.values.get(state.input), graph.values.get(state.output)
        if old is None or new is None or state.input not in graph.inputs or state.output not in graph.outputs:
            raise ValueError(f"{state.output!r:.60} and {state.input!r:.60} are no output and input")
        if (old.shape, old.dtype, old.qtype) != (new.shape, new.dtype, new.qtype):
            raise ValueError(f"{state.output!r:.60} and {state.input!r:.60} are stored differently")


def _object(**properties: Any) -> dict[str, Any]:
    """The JSON Schema of an object that must have all of these keys."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
_TEXTS, _COUNT = {"type": "array", "items": _TEXT}, {"type": "integer", "minimum": 0}
_SIZE = {"type": "integer", "minimum": 1, "maximum": 2**31}
_DTYPE = {"enum": sorted(COMPUTED)}
_QTYPE = _object(
    dtype={"enum": ["int8", "int16", "int32"]},
    scale={"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
    zero_point={"type": "array", "items": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}},
    axis={"type": ["integer", "null"], "minimum": 0, "maximum": 63},
)
SCHEMA = _object(
    name=_TEXT,
    inputs=_TEXTS,
    outputs=_TEXTS,
    values={
        "type": "array",
        "items": _object(
            name=_TEXT,
            shape={"type": "array", "items": _SIZE},
            dtype=_DTYPE,
            layout={"type": ["array", "null"], "items": _COUNT},
            qtype={"anyOf": [_QTYPE, {"type": "null"}]},
            constant={"type": "boolean"},
            place={"enum": ["arena", "caller", "rows", "state"]},
        ),
    },
    nodes={
        "type": "array",
        "items": _object(
            name=_TEXT,
            op=_TEXT,
            inputs=_TEXTS,
            outputs={**_TEXTS, "minItems": 1},
            origins=_TEXTS,
            params={"type": ["object", "null"]},
            constants=_TEXTS,
            kernel={"type": ["string", "null"]},
            shares={"type": ["integer", "null"], "minimum": 0},
            macs=_COUNT,
        ),
    },
)
"""The JSON Schema of graph.json."""


def _value(entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> Value:
    q = entry["qtype"]
    qtype = QType(q["dtype"], tuple(q["scale"]), tuple(q["zero_point"]), q["axis"]) if q else None
    if (
        qtype is not None
        and qtype.axis is not None
        and entry["shape"][qtype.axis : qtype.axis + 1] != [len(qtype.scale)]
    ):
        raise ValueError(
            f"{entry['name']!r} has no {len(qtype.scale)} elements along the axis {qtype.axis} of its scales"
        )
    const = Const(arrays[_key("", entry["name"])]) if entry["constant"] else None
    layout = tuple(entry["layout"]) if entry["layout"] else None
    return Value(
        entry["name"], tuple(entry["shape"]), entry["dtype"], qtype, const, layout, entry.get("model_dtype"),
        entry.get("place", "arena"), found=tuple(entry["found"]) if "found" in entry else None,
        labels=tuple(map(str, entry.get("labels", ()))),
    )  # fmt: skip


def _node(entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> Node:
    params = None
    if entry["op"] not in kernel_ops():
        raise UsageError(
            f"{entry['name']!r:.100} is of the unknown op {entry['op']!r:.60}: name the folder of own operators with which the"
            " model was compiled (--ops FOLDER), or compile the model again"
        )
    if entry["params"] is not None:
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["params"].items()}
        params = kernel_ops()[entry["op"]].params(**fields)
        c_initialiser(params)  # raises ValueError if a number does not fit its field
    constants = {c: Const(arrays[_key(entry["name"], c)]) for c in entry["constants"]}
    return Node(
        entry["name"], entry["op"], tuple(entry["inputs"]), tuple(entry["outputs"]), {}, tuple(entry["origins"]),
        params, constants, entry["kernel"], entry["shares"], entry["macs"],
    )  # fmt: skip


def stored_constant(value: Value) -> Array:
    """The stored tensor of a constant that a kernel reads as an input. The last step of the constant is a
    quantization.
    """
    assert value.const is not None, value.name
    array = value.const.materialize()
    dtype = value.qtype.dtype if value.qtype else value.dtype
    assert array.dtype == dtype, f"{value.name} is {array.dtype}, not {dtype}"
    return array


def _structure(graph: Graph) -> dict[str, Any]:
    """The kernel-level graph as JSON data."""
    return {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        **({"states": [asdict(state) for state in graph.states]} if graph.states else {}),
        **({"stream": asdict(graph.stream)} if graph.stream is not None else {}),
        "values": [
            {
                "name": v.name,
                "shape": list(v.shape),
                "dtype": v.dtype,
                "layout": list(v.layout) if v.layout else None,
                "model_dtype": v.model_dtype,
                "qtype": asdict(v.qtype) if v.qtype else None,
                "constant": v.const is not None,
                "place": v.place,
                **({"found": list(v.found)} if v.found else {}),
                **({"labels": list(v.labels)} if v.labels else {}),
            }
            for v in graph.values.values()
        ],
        "nodes": [
            {
                "name": n.name,
                "op": n.op,
                "inputs": list(n.inputs),
                "outputs": list(n.outputs),
                "origins": list(n.origins),
                "params": asdict(n.params) if is_dataclass(n.params) and not isinstance(n.params, type) else None,
                "constants": list(n.constants),
                "kernel": n.kernel,
                "shares": n.shares,
                "macs": n.macs,
            }
            for n in graph.nodes
        ],
    }


def _key(owner: str, name: str) -> str:
    """The key of a constant in reference/constants.npz. Names are hashed, because they may contain characters that a
    zip entry must not.
    """
    return hashlib.sha256(f"{owner}\0{name}".encode()).hexdigest()[:24]


def _constants(graph: Graph) -> bytes:
    arrays = {_key(n.name, c): n.constants[c].materialize() for n in graph.nodes for c in n.constants}
    arrays |= {_key("", n): stored_constant(v) for n, v in graph.values.items() if v.const is not None}
    buffer = io.BytesIO()
    np.savez(buffer, **{key: arrays[key] for key in sorted(arrays)})  # type: ignore[arg-type]
    return buffer.getvalue()
