"""One network that contains every op with its own kernels twice: in nodes whose names begin with i_, and in nodes whose
names begin with f_.
"""

from __future__ import annotations

import numpy as np
import onnx
from small_models import model, node, weights

from glowembed.ops.activation import FORMULAS

POSITIVE = ("Log", "Reciprocal", "Sqrt")
"""Functions that need an input above zero: they get that of Exp."""


def branch(prefix: str) -> list[onnx.NodeProto]:
    """8x8 with 4 channels; every function of one number is a part of one Concat."""
    functions = sorted(set(FORMULAS) - set(POSITIVE)) + list(POSITIVE)
    inputs = {
        "conv": "x w_conv b_conv", "relu": "conv", "depthwise": "relu w_depthwise", "largest": "relu", "mean": "relu",
        "sum": "depthwise largest", "difference": "sum mean", "product": "difference largest", "up": "product w_up",
        "cut": "up starts ends axes", "clip": "cut low high",
        **{f: "Exp" if f in POSITIVE else "clip" for f in functions},
        "all": " ".join(functions), "scaled": "all scale", "padded": "scaled pads", "turned": "padded",
        "chances": "turned", "flat": "chances shape", "dense": "flat w_dense", "y": "dense w_gemm b_gemm",
    }  # fmt: skip
    kinds = {
        "conv": ("Conv", {"pads": [1, 1, 1, 1]}),
        "relu": ("Relu", {}),
        "depthwise": ("Conv", {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        "largest": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        "mean": ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        "sum": ("Add", {}),
        "difference": ("Sub", {}),
        "product": ("Mul", {}),
        "up": ("ConvTranspose", {"strides": [2, 2]}),
        "cut": ("Slice", {}),
        "clip": ("Clip", {}),
        "all": ("Concat", {"axis": 1}),
        "scaled": ("Mul", {}),
        "padded": ("Pad", {}),
        "turned": ("Transpose", {"perm": [0, 2, 3, 1]}),
        "chances": ("Softmax", {"axis": -1}),
        "flat": ("Reshape", {}),
        "dense": ("MatMul", {}),
        "y": ("Gemm", {"transB": 1}),
    }
    made = []
    for output, names in inputs.items():
        kind, attrs = kinds.get(output, (output, {}))
        own = " ".join(prefix + name if name in inputs else name for name in names.split())
        made.append(node(kind, own, prefix + output, node_name=prefix + output, **attrs))
    return made


def everything() -> onnx.ModelProto:
    """One branch whose nodes begin with i_, one with f_."""
    channels, size = 2 * len(FORMULAS), 4 * 4
    constants = {
        "w_conv": weights(4, 4, 3, 3), "b_conv": weights(4), "w_depthwise": weights(4, 1, 3, 3), "w_up": weights(4, 2, 2, 2),
        "starts": [2, 2], "ends": [6, 5], "axes": [2, 3], "low": np.float32(-3), "high": np.float32(4),
        "scale": weights(1, channels, 1, 1), "pads": [0, 0, 0, 0, 0, 0, 0, 1], "shape": [1, -1],
        "w_dense": weights(channels * size, 6), "w_gemm": weights(5, 6), "b_gemm": weights(5),
    }  # fmt: skip
    return model([*branch("i_"), *branch("f_")], {"x": (1, 4, 8, 8)}, constants, ("i_y", "f_y"), opset=20)
