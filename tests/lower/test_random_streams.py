"""Random networks on streams: hops give the bits of windows on every core, and states those of the whole sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated import BOARDS
from small_models import saved
from stream_networks import recurrent, windowed

from glowembed.judge.validation import validate
from glowembed.options.words import named_stream
from glowembed.pipeline import CompileOptions, compile_model

CASES = [
    ("tcn", 0, "cortex-m4", "int8"),
    ("tcn", 3, "cortex-m55", "float32"),
    ("residual", 1, "cortex-m0", "int8"),
    ("residual", 5, "cortex-m4", "int16"),
    ("branches", 1, "cortex-m55", "int8"),
    ("branches", 3, "cortex-m4", "int16"),
    ("squeeze", 2, "cortex-m4", "int8"),
    ("images", 3, "cortex-m55", "int8"),
    ("images", 3, "cortex-m0", "int16"),
    ("time last", 2, "cortex-m4", "int8"),
    ("channels last", 4, "cortex-m0", "int8"),
    ("channels last", 3, "cortex-m55", "int16"),
]
"""Kind and seed of a network, core and type."""


@pytest.mark.qemu
@pytest.mark.parametrize(("kind", "seed", "target", "dtype"), CASES)
def test_hops_give_the_bits_of_windows(kind: str, seed: int, target: str, dtype: str, tmp_path: Path) -> None:
    """`validate` compares each hop on the board with the reference of the hop, and that with the reference of the window."""
    proto, asked = windowed(kind, seed)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).normal(size=(6, *shape[1:])).astype(np.float32)
    np.savez(tmp_path / "data.npz", calib_x=x, test_x=x[:2])
    chosen = CompileOptions(target, name="net", stream=named_stream(asked), dtype=dtype)  # type: ignore[arg-type]
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")
    assert validate(bundle, tmp_path / "data.npz", BOARDS[target]).bit_exact


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("seed", "target", "dtype"),
    [(0, "cortex-m4", "int8"), (1, "cortex-m55", "int8"), (2, "cortex-m0", "int16"), (3, "cortex-m4", "float32")],
)
def test_a_state_runs_through_a_sequence(seed: int, target: str, dtype: str, tmp_path: Path) -> None:
    proto = recurrent(seed)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).normal(size=(24, *shape)).astype(np.float32)
    np.savez(tmp_path / "data.npz", calib_x=x, test_x=x[:8])
    chosen = CompileOptions(target, name="net", dtype=dtype)  # type: ignore[arg-type]
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "net", chosen, tmp_path / "data.npz")
    assert len(bundle.graph.states) == 1 + seed % 2
    assert validate(bundle, tmp_path / "data.npz", BOARDS[target]).bit_exact
