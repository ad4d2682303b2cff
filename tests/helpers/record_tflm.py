"""Runs the files of tflite_cases.py in TensorFlow Lite Micro and prints the table DIGESTS of
tests/read/test_tflite_bits.py.

    pip install tflite-micro ai-edge-litert    # in a separate environment; the project does not need them
    python tests/helpers/record_tflm.py

Operators that the package of TensorFlow Lite Micro lacks are run by LiteRT's reference kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_cases import SAMPLES, cases, samples
from tflite_micro.python.tflite_micro import runtime


def in_micro(data: bytes, shapes: Sequence[tuple[tuple[int, ...], str]], outputs: int) -> list[np.ndarray]:
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    found = []
    for sample in range(SAMPLES):
        for i, (shape, dtype) in enumerate(shapes):
            interpreter.set_input(samples(shape, dtype, i)[sample], i)
        interpreter.reset()  # a layer with a memory begins with zeros
        interpreter.invoke()
        found += [interpreter.get_output(j).copy() for j in range(outputs)]
    return found


def in_litert(data: bytes, kind: OpResolverType) -> tuple[list[np.ndarray], list[tuple[tuple[int, ...], str]], int]:
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    shapes = [(tuple(int(n) for n in d["shape"]), np.dtype(d["dtype"]).name) for d in inputs]
    found = []
    for sample in range(SAMPLES):
        for i, (shape, dtype) in enumerate(shapes):
            interpreter.set_tensor(inputs[i]["index"], samples(shape, dtype, i)[sample])
        interpreter.invoke()
        found += [interpreter.get_tensor(d["index"]).copy() for d in outputs]
    return found, shapes, len(outputs)


def main() -> None:
    for name, data in cases().items():
        try:
            found, shapes, outputs = in_litert(data, OpResolverType.BUILTIN_REF)
        except (RuntimeError, ValueError):
            found, shapes, outputs = in_litert(data, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        source = "LiteRT"
        try:
            found, source = in_micro(data, shapes, outputs), "TFLM"
        except Exception as error:  # the package raises what it likes
            source += f" ({str(error).splitlines()[0][:60]})"
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in found)).hexdigest()[:12]
        print(f'    "{name}": "{digest}",' + ("" if source == "TFLM" else f"  # {source}"))


if __name__ == "__main__":
    main()
