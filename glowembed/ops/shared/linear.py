"""The constants of every op with weights: int8 weights, an int32 bias that includes the input's zero point, and
multipliers.

In: delayed float constants and QTypes. Out: delayed integer constants. Weights are symmetric (zero point 0), so

    acc = sum(x * w) + bias',   bias' = round(b / (s_x * s_w)) - zero_point_x * sum(w)

and the inner loops of the kernels only add products. Asymmetric weights have separate kernels (`..._aw_s8`), which
subtract the zero point of each output channel; there w stands for w - zero_point_w.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Array, Const, QType, Shape
from glowembed.graph.op import Malformed, in_mode
from glowembed.law import fixedpoint
from glowembed.law.modes import Mode
from glowembed.records import dataclass


@dataclass(frozen=True)
class LinearConstants:
    """weights: int8, output channel first, not yet in the kernel's order. bias, multiplier: one for each output
    channel.
    """

    weights: Const
    bias: Const
    multiplier: Const
    requant: fixedpoint.Requant
    weight_zero_point: Const | None = None
    form: str = "s8"

    def as_dict(self) -> dict[str, Const]:
        constants = {"weights": self.weights, "bias": self.bias, "multiplier": self.multiplier}
        return (
            constants if self.weight_zero_point is None else {**constants, "weight_zero_point": self.weight_zero_point}
        )

    def op(self, stem: str) -> str:
        """The name of the kernel-level op that takes these constants: `stem`_s8, `stem`_s8_w4, `stem`_s8_wt or
        `stem`_aw_s8, with the law's suffix.
        """
        return in_mode(f"{stem}_{self.form}", self.requant.mode)


def check_bias(bias: Shape, channels: int) -> None:
    """Raise ValueError unless the bias has one number for each output channel."""
    if bias != (channels,):
        raise Malformed(
            f"a bias of shape {list(bias)} does not fit {channels} output channels", "check the shapes of its inputs"
        )


def linear_constants(
    w: Const, wq: QType, bias: Const, xq: QType, yq: QType, name: str, mode: Mode = "default"
) -> LinearConstants:
    """The constants of y = x . w + b for weights with the output channel as axis 0.

    Raises UnsupportedModelError, which names the node `name` and the channel, if an accumulator could exceed int32.
    """
    weights = w.then("quantize", wq.quantize)
    stored = weights.materialize()
    channels = stored.shape[0]
    zero = np.broadcast_to(np.asarray(wq.zero_point, dtype=np.int32), (channels,))
    flat = stored.reshape(channels, -1).astype(np.int64) - zero[:, None]
    w_scale = np.broadcast_to(np.asarray(wq.scale, dtype=np.float64), (channels,))
    steps = fixedpoint.bias_steps(bias.materialize(), xq.scale[0] * w_scale, 2.0**31, name)
    folded = steps - xq.zero_point[0] * flat.sum(axis=1)
    bound = 128 * np.abs(flat).sum(axis=1) + np.abs(folded)
    if (worst := int(bound.argmax())) >= 0 and bound[worst] >= 2**31:
        raise UnsupportedModelError(
            f"{name}: the accumulator of output channel {worst} can reach {bound[worst]}, more than int32 holds;"
            " a rule with 'dtype: float32' for this node has no such limit"
        )
    requant = fixedpoint.requant(output_scales(xq.scale[0], w_scale, yq.scale[0], mode), mode, f"{name}: ")
    return LinearConstants(
        weights,
        _ready("fold_zero_point", folded.astype(np.int32), bias),
        Const(np.asarray(requant.multiplier, dtype=np.int32)),
        requant,
        Const(np.ascontiguousarray(zero)) if zero.any() else None,
        "aw_s8" if zero.any() else "s8_w4" if wq.dtype == "int4" else "s8_wt" if wq.table else "s8",
    )


def output_scales(x: float, w: NDArray[np.float64], y: float, mode: Mode) -> NDArray[np.float64]:
    """The scales x * w / y, rounded to float32 after each step in the laws of engines that do so."""
    if mode == "glow":
        with np.errstate(over="ignore"):  # fixedpoint.requant raises for infinite scales
            return (np.float32(x) * w.astype(np.float32) / np.float32(y)).astype(np.float64)
    return x * w / y


def mode_of(attrs: Mapping[str, Any]) -> Mode:
    """The requantization law of a node."""
    mode: Mode = attrs.get("requantization", "default")
    return mode


def _ready(name: str, array: Array, source: Const) -> Const:
    """The source constant with an additional step that replaces it by the computed array."""
    return source.then(name, lambda _: array)


def clamp_limits(yq: QType, attrs: Mapping[str, Any]) -> tuple[int, int]:
    """The stored limits of the fused activation, within the limits of the type."""
    low, high = yq.limits
    act_min, act_max = attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)
    lo = low if act_min == -np.inf else int(yq.quantize(np.asarray(act_min)))
    hi = high if act_max == np.inf else int(yq.quantize(np.asarray(act_max)))
    return lo, hi
