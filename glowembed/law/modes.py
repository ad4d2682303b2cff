"""The names of the modes of requantization; fixedpoint.py computes them."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["default", "onnx", "glow", "tflite"]
MODES: tuple[Mode, ...] = get_args(Mode)
