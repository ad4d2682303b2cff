"""The int16 kernels of Helium around their boundaries: triples of pixels, eights of inputs and channels, bounds."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from checker import case, weights
from kernel_checker import check_kernels

pytestmark = pytest.mark.cc

SHARED = runpy.run_path(str(Path(__file__).parents[1] / "dsp" / "test_dsp_wide.py"))
CASES = {
    **SHARED["CASES"],
    "depthwise of stride 2": case(
        "two",
        "Conv",
        (1, 9, 7, 6),
        weights(9, 1, 3, 3),
        group=9,
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 1, 1, 0],
    ),
    "columns of eleven": case("eleven", "Conv", (1, 3, 11, 5), weights(3, 1, 3, 3), group=3, **SHARED["WINDOW"]),
    "rows of ten": case(
        "ten", "Conv", (1, 2, 9, 11), weights(2, 1, 3, 3), group=2, kernel_shape=[3, 3], pads=[2, 0, 0, 1]
    ),
    "many rows": case("rows", "Conv", (1, 2, 19, 20), weights(2, 1, 3, 3), group=2, **SHARED["WINDOW"]),
    "several bands": case("bands", "Conv", (1, 2, 4, 130), weights(2, 1, 3, 3), group=2, **SHARED["WINDOW"]),
}


@pytest.mark.parametrize("kind", ["int8", "int16", "int16 exact"])
@pytest.mark.parametrize("name", CASES)
def test_boundaries(name, kind):
    for node, graph in SHARED["nodes_of"](CASES[name], kind):
        assert any(
            symbol.endswith("_mve") for symbol in check_kernels(node, graph, np.random.default_rng(1), isa="mve")
        )
