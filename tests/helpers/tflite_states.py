"""Files of networks with a memory, and the inputs of their runs. Run as a program, it prints what LiteRT makes of them:

python tests/helpers/tflite_states.py    # where ai-edge-litert is installed
"""

from __future__ import annotations

import numpy as np
from tflite_cases import X, numbers
from tflite_files import T, tflite_file

STEPS = 4


def fractions(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return (numbers(shape, -100, 100, seed) / 100).astype(np.float32)


def streaming() -> bytes:
    """A ring of the last four inputs in a variable, as streaming converters write it, and a layer."""
    main = [
        T("x", (1, 1, 4), "int8", *X), T("h", (), "resource"), T("old", (1, 3, 4), "int8", *X), T("new", (1, 4, 4), "int8", *X),
        T("b", (3,), "int32", data=[0, 1, 0]), T("e", (3,), "int32", data=[1, 3, 4]), T("kept", (1, 3, 4), "int8", *X),
        T("w", (2, 16), "int8", 0.02, data=numbers((2, 16), -127, 127)), T("y", (1, 2), "int8", 0.2, -5),
    ]  # fmt: skip
    handle = ("VAR_HANDLE", "", "h", ("VarHandle", {"SharedName": "ring"}))
    operators = [
        ("CALL_ONCE", "", "", ("CallOnce", {"InitSubgraphIndex": 1})),
        handle,
        ("READ_VARIABLE", "h", "old", ("ReadVariable", {})),
        ("CONCATENATION", "old x", "new", ("Concatenation", {"Axis": 1})),
        ("SLICE", "new b e", "kept", ("Slice", {})),
        ("ASSIGN_VARIABLE", "h kept", "", ("AssignVariable", {})),
        ("FULLY_CONNECTED", "new w -", "y", ("FullyConnected", {})),
    ]
    zeros = T("z", (1, 3, 4), "int8", *X, data=np.full((1, 3, 4), X[1]))
    first = ([T("h", (), "resource"), zeros], [handle, ("ASSIGN_VARIABLE", "h z", "", ("AssignVariable", {}))], "", "")
    return tflite_file(main, operators, "x", "y", [first])


def svdf(rank: int) -> bytes:
    """Six filters with a memory of five steps."""
    filters, memory, units = 6, 5, 6 // rank
    tensors = [
        T("x", (1, 4), "float32"),
        T("f", (filters, 4), "float32", data=fractions((filters, 4), 1)),
        T("t", (filters, memory), "float32", data=fractions((filters, memory), 2)),
        T("b", (units,), "float32", data=fractions((units,), 3)),
        T("s", (1, filters * memory), "float32", is_variable=True),
        T("y", (1, units), "float32"),
    ]
    options = ("SVDF", {"Rank": rank, "FusedActivationFunction": 1})
    return tflite_file(tensors, [("SVDF", "x f t b s", "y", options)], "x", "y")


def lstm(time_major: bool = False, **options: float) -> bytes:
    """Three steps of four numbers, two units."""
    steps, width, units = 3, 4, 2
    shape = (steps, 1) if time_major else (1, steps)
    sizes = [(units, width)] * 4 + [(units, units)] * 4 + [(units,)] * 4
    weights = [T(f"w{i}", size, "float32", data=fractions(size, i)) for i, size in enumerate(sizes)]
    states = [T(name, (1, units), "float32", is_variable=True) for name in ("h", "c")]
    tensors = [T("x", (*shape, width), "float32"), *weights, *states, T("y", (*shape, units), "float32")]
    names = ["x", *(f"w{i}" for i in range(8)), *"---", *(f"w{i}" for i in range(8, 12)), *"--", "h", "c", *"----"]
    table = ("UnidirectionalSequenceLSTM", {"FusedActivationFunction": 4, "TimeMajor": time_major, **options})
    return tflite_file(tensors, [("UNIDIRECTIONAL_SEQUENCE_LSTM", " ".join(names), "y", table)], "x", "y")


FILES = {
    "streaming": streaming(),
    "svdf": svdf(1),
    "svdf of rank 2": svdf(2),
    "lstm": lstm(),
    "lstm, time first": lstm(True),
}


def inputs(name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The inputs of a file, run after run."""
    if name == "streaming":
        return [numbers(shape, -128, 127, seed).astype(np.int8) for seed in range(STEPS)]
    return [fractions(shape, seed) for seed in range(1 if "lstm" in name else STEPS)]


def main() -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for name, data in FILES.items():
        made = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
        made.allocate_tensors()
        (x,), (y,) = made.get_input_details(), made.get_output_details()
        found = []
        for given in inputs(name, tuple(x["shape"])):
            made.set_tensor(x["index"], given)
            made.invoke()
            found.append(made.get_tensor(y["index"]).reshape(-1).astype(np.float64).round(6).tolist())
        print(f'    "{name}": {found},')


if __name__ == "__main__":
    main()
