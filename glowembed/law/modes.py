"""The names of the laws of requantization, which fixedpoint.py computes."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["default", "onnx", "glow", "tflite"]
MODES: tuple[Mode, ...] = get_args(Mode)
