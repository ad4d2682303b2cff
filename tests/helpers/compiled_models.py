"""Compiles a small model with calibration samples of a fixed seed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from small_models import saved

from glowembed.graph.registry import kernel_ops
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.run.kernel import variants


@cache
def level_here() -> tuple[str, ...]:
    """The best level of kernels that this computer has; empty if it has none. A bundle for x86-64 with this level alone runs the same code
    here as one with all levels, and takes a compiler less than half of the time.
    """
    found = next(variants(k) for op in kernel_ops().values() for k in op.kernels if k.isa == "x86")
    return tuple(level.word for level in found[-1:] if level is not None)


def compiled(proto: object, folder: Path, target: str = "x86-64", **options: object) -> Bundle:
    """A model compiled with calibration samples of a fixed seed."""
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    arrays = {
        f"calib_{n}" if len(shapes) > 1 else "calib_x": rng.normal(size=(4, *s[1:])).astype(np.float32)
        for n, s in shapes.items()
    }
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    chosen = CompileOptions(target, **{"name": "net", "input_layout": "nhwc", **options})  # type: ignore[arg-type]
    return compile_model(saved(proto, folder), folder / "net", chosen, folder / "data.npz")  # type: ignore[arg-type]
