"""Layers with weights, and products of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.read.tflite.translate import Call

SAME, VALID = 0, 1


def same_pads(size: Sequence[int], window: Sequence[int], stride: Sequence[int], out: Sequence[int]) -> list[int]:
    """Padding of type SAME in the order of ONNX, all beginnings first; the larger half is at the end."""
    total = [max((o - 1) * s + k - n, 0) for n, k, s, o in zip(size, window, stride, out, strict=True)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


def strides(c: Call) -> list[int]:
    found = [c.option("StrideH", 1), c.option("StrideW", 1)]
    if min(found) < 1:
        raise Refused(f"its strides are {found}", "strides must be above 0")
    return found


def padding(c: Call, window: Sequence[int], stride: Sequence[int], x: int = 0) -> list[int]:
    """The pads of an operator with windows over input x, an image [n, h, w, c]."""
    kind, size = c.option("Padding"), c.shape(x)[1:3]
    if kind == VALID:
        return [0, 0, 0, 0]
    if kind != SAME:
        raise Refused(f"the padding {kind}", "SAME and VALID are supported")
    return same_pads(size, window, stride, [-(-n // s) for n, s in zip(size, stride, strict=True)])


def _four(c: Call, i: int, what: str) -> tuple[int, ...]:
    shape = c.shape(i)
    if len(shape) != 4:
        raise Refused(f"its {what} has the shape {list(shape)}", "four axes are expected")
    return shape


def _window(c: Call, height: int, width: int) -> tuple[list[int], list[int], list[int]]:
    """The dilations, strides and pads of an operator."""
    dilations = [max(c.option("DilationHFactor", 1), 1), max(c.option("DilationWFactor", 1), 1)]
    reach = [(k - 1) * d + 1 for k, d in zip((height, width), dilations, strict=True)]
    stride = strides(c)
    return dilations, stride, padding(c, reach, stride)


def _with_bias(c: Call, inputs: list[str], i: int = 2) -> list[str]:
    return [*inputs, c.t.bias(c.index(i), c.index(0), c.index(1))] if c.has(i) else inputs


def conv(c: Call) -> None:
    """A convolution with weights [out, h, w, in]; fewer channels than the image has mean groups."""
    out, height, width, channels = _four(c, 1, "weights")
    given = _four(c, 0, "input")[3]
    if channels == 0 or given % channels or out % max(given // channels, 1):
        raise Refused(f"weights of {channels} channels for an input of {given}", "check the file")
    dilations, stride, pads = _window(c, height, width)
    weights = c.t.weights(c.index(1), "weights_oihw", lambda w: w.transpose(0, 3, 1, 2))
    inputs = _with_bias(c, [c.channels_first(c.real(0)), weights])
    group = given // channels
    c.done_channels_last(
        c.add_main("Conv", inputs, "conv", group=group, dilations=dilations, strides=stride, pads=pads)
    )


def depthwise(c: Call) -> None:
    """A depthwise convolution with weights [1, h, w, channels * multiplier]."""
    _, height, width, out = _four(c, 1, "weights")
    channels = _four(c, 0, "input")[3]
    if channels == 0 or out % channels:
        raise Refused(f"{out} filters for {channels} channels", "check the file")
    dilations, stride, pads = _window(c, height, width)
    weights = c.t.weights(c.index(1), "weights_oihw", lambda w: w.transpose(3, 0, 1, 2))
    inputs = _with_bias(c, [c.channels_first(c.real(0)), weights])
    c.done_channels_last(
        c.add_main("Conv", inputs, "conv", group=channels, dilations=dilations, strides=stride, pads=pads)
    )


def transpose_conv(c: Call) -> None:
    """A transposed convolution; its inputs are the output's shape, weights [out, h, w, in], the image, and possibly a
    bias.
    """
    out, height, width, _ = _four(c, 1, "weights")
    size, made, stride = _four(c, 2, "input")[1:3], c.output().shape, strides(c)
    if len(made) != 4 or made[3] != out:
        raise Refused(f"its output has the shape {list(made)}", f"an image of {out} channels is expected")
    whole = [(n - 1) * s + k for n, s, k in zip(size, stride, (height, width), strict=True)]
    kind = c.option("Padding")
    pads = same_pads(made[1:3], (height, width), stride, size) if kind == SAME else [0, 0, 0, 0]
    extra = [m - w + b + e for m, w, b, e in zip(made[1:3], whole, pads[:2], pads[2:], strict=True)]
    if min(extra) < 0:
        pads[2:] = [e - x for e, x in zip(pads[2:], np.minimum(extra, 0).tolist(), strict=True)]
    weights = c.t.weights(c.index(1), "weights_iohw", lambda w: w.transpose(3, 0, 1, 2), axis=1)
    inputs = [c.channels_first(c.real(2)), weights]
    if c.has(3):
        inputs.append(c.t.bias(c.index(3), c.index(2), c.index(1)))
    output_padding = [max(x, 0) for x in extra]
    c.done_channels_last(
        c.add_main("ConvTranspose", inputs, "conv", strides=stride, pads=pads, output_padding=output_padding)
    )


def fully_connected(c: Call) -> None:
    """y = x w^T + b, with weights [out, in], for every shape of x."""
    weights_shape, shape, made = c.shape(1), c.shape(0), c.output().shape
    if len(weights_shape) != 2 or prod(weights_shape) == 0 or prod(shape) % weights_shape[1]:
        raise Refused(f"weights of shape {list(weights_shape)} for an input of shape {list(shape)}", "check the file")
    if c.option("WeightsFormat"):
        raise Refused("shuffled weights", "convert the model with weights in the default format")
    out, count = weights_shape
    rows = prod(shape) // count
    x = c.real(0) if shape == (rows, count) else c.reshaped(c.real(0), (rows, count), "rows")
    constant = c.tensor(1).array is not None
    weights = c.t.weights(c.index(1), "weights", lambda w: w) if constant else c.real(1)
    inputs = _with_bias(c, [x, weights])
    if made == (rows, out):
        c.done("Gemm", inputs, transB=1)
        return
    c.done("Reshape", [c.add_main("Gemm", inputs, "gemm", transB=1), c.constant("shape", made)])


def batch_matmul(c: Call) -> None:
    """The product of two tensors, either of which may be transposed."""
    operands = []
    for i, option in enumerate(("AdjX", "AdjY")):
        rank = len(c.shape(i))
        perm = [*range(rank - 2), rank - 1, rank - 2]
        transposed = bool(c.option(option))

        def arranged(w: Array, perm: list[int] = perm, transposed: bool = transposed) -> Array:
            return w.transpose(perm) if transposed else w

        scales = c.tensor(i).scales
        if c.tensor(i).array is not None and (scales is None or scales.scale.size == 1):
            operands.append(c.t.weights(c.index(i), f"matrix{transposed:d}", arranged))
        else:
            operands.append(c.transposed(c.real(i), perm, f"adjoint_{i}") if transposed else c.real(i))
    c.done("MatMul", operands)


OPERATORS = {
    "BATCH_MATMUL": batch_matmul,
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": fully_connected,
    "TRANSPOSE_CONV": transpose_conv,
}
