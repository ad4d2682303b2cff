"""The functions of NAME.h between real and stored numbers have the bits of the quantization in Python."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved

import glowembed
from glowembed.graph.ir import QType

STRICT = "-std=c99 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wdouble-promotion -Wfloat-equal -Wshadow -Wundef -Werror".split()
PROGRAM = """
#include "net.h"
void quantize(const float *real, int32_t *stored, int32_t count);
void dequantize(const int32_t *stored, float *real, int32_t count);
void quantize(const float *real, int32_t *stored, int32_t count) {
    for (int32_t i = 0; i < count; i++) stored[i] = net_quantize_x(real[i]);
}
void dequantize(const int32_t *stored, float *real, int32_t count) {
    for (int32_t i = 0; i < count; i++) real[i] = net_dequantize_y((CTYPE)stored[i]);
}
"""


@pytest.mark.cc
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_real_and_stored_numbers(dtype: str, compiler: str, tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "y")], {"x": (1, 8)}), tmp_path)
    samples = np.random.default_rng(2).normal(0.4, 2, (64, 8)).astype(np.float32)
    options = glowembed.CompileOptions(target="x86-64", name="net", dtype=dtype)
    manifest = glowembed.compile_model(path, tmp_path / "net", options, samples).manifest
    types = [QType(dtype, (t["scale"],), (t["zero_point"],)) for t in (manifest["inputs"][0], manifest["outputs"][0])]
    (tmp_path / "reals.c").write_text(PROGRAM.replace("CTYPE", f"{dtype}_t"))
    library = tmp_path / "reals.so"
    words = [compiler, *STRICT, "-shared", "-fPIC", f"-I{tmp_path / 'net'}", tmp_path / "reals.c", "-o", library]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))

    low, high = types[0].limits
    steps = np.arange(low - 3, high + 4, 0.25) - types[0].zero_point[0]
    reals = (steps * types[0].scale[0]).astype(np.float32)
    near = [np.nextafter(reals, np.float32(side)) for side in (-np.inf, np.inf)]
    ends = np.float32([0.0, -0.0, 1e-45, np.inf, -np.inf, 3.4e38, -3.4e38])
    real = np.concatenate([reals, *near, ends, np.random.default_rng(1).normal(0, 3, 50_000).astype(np.float32)])
    stored = np.zeros(len(real), np.int32)
    loaded.quantize(real.ctypes, stored.ctypes, len(real))
    assert np.array_equal(stored, types[0].quantize(real))
    nan, one = np.float32([np.nan]), np.zeros(1, np.int32)
    loaded.quantize(nan.ctypes, one.ctypes, 1)
    assert one[0] == low

    every = np.arange(low, high + 1, dtype=np.int32)
    found = np.zeros(len(every), np.float32)
    loaded.dequantize(every.ctypes, found.ctypes, len(every))
    assert np.array_equal(found, types[1].dequantize(every))
