"""Writes model.onnx, which uses both operators of ops/, and data.npz with samples for it.

python make_model.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

SHAPE = (1, 4, 8)


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array((rng.normal(size=(8, 8)) * 0.4).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="hidden"),
        helper.make_node("Snake", ["h"], ["s"], name="snake", domain="my.ops", a=2.0),
        helper.make_node("Median3", ["s"], ["y"], name="median", domain="my.ops"),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "own", tensors[:1], tensors[1:], [w])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    folder.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    samples = rng.normal(size=(64, *SHAPE[1:])).astype(np.float32)
    np.savez(folder / "data.npz", calib_x=samples[:48], test_x=samples[48:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
