"""Times another engine: KIND MODEL. For each line "N" on stdin it makes N calls, and says min and median in ns.

Runs in a process of its own, with nothing of glowembed. KIND: onnxruntime or litert. Starts with the line `ready`, or
`absent: why` where the engine is not installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def onnxruntime(model: str) -> Callable[[], Any]:
    """One thread, all optimizations, inputs prepared."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    types = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}
    feeds = {}
    for info in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in info.shape]
        feeds[info.name] = random.uniform(-1, 1, shape).astype(types[info.type])
    return lambda: session.run(None, feeds)


def litert(model: str) -> Callable[[], Any]:
    """One thread, XNNPACK as by default; only the call is timed, not the copies of input and output."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=1)
    interpreter.allocate_tensors()
    random = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        noise = random.uniform(-1, 1, detail["shape"]) * (100 if detail["dtype"] is np.int8 else 1)
        interpreter.set_tensor(detail["index"], noise.astype(detail["dtype"]))
    return interpreter.invoke


def main() -> None:
    """Serve."""
    try:
        call = {"onnxruntime": onnxruntime, "litert": litert}[sys.argv[1]](sys.argv[2])
    except ImportError as error:
        print(f"absent: {error}", flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - start)
        times.sort()
        print(times[0], times[len(times) // 2], flush=True)


if __name__ == "__main__":
    main()
