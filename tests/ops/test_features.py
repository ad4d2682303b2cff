"""The front end: features_s16_s8, features_s16_s16, features_s16_f32."""

import numpy as np
import pytest
from checker import check_kernels

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Graph, Node, QType, Value, verify
from glowembed.graph.registry import kernel_ops, ops
from glowembed.law import spectrum
from glowembed.lower.nodes import lower
from glowembed.ops.features import SOUND, law
from glowembed.options.frontend import from_document

pytestmark = pytest.mark.cc

TYPES = [QType("int8", (0.1,), (5,)), QType("int16", (0.002,), (0,)), None]
SHORT = {"window": 24, "hop": 16, "fft": 32, "bands": 5, "low_hz": 100.0, "high_hz": 7000.0, "coefficients": 4}
"""An odd number of first transforms of 4."""

KINDS = [
    {"kind": "mfcc"},
    {"kind": "mfcc", **SHORT},
    {"kind": "mfcc", **SHORT, "window": 50, "hop": 20, "fft": 64, "area": True},
    {"kind": "logmel", "spectrum": "power", "log": "decibel", "floor": 1e-9, "shape": "hamming", "periodic": False},
    {"kind": "logmel", "fft": 1024, "window": 1000, "hop": 500, "mel": "slaney", "triangles": "hz", "area": True},
    {"kind": "logmel", "log": "none", "window": 64, "hop": 64, "fft": 64, "bands": 7, "shape": "rectangular"},
    {"kind": "spectrogram", "fft": 128, "window": 100, "hop": 75, "log": "log2"},
    {"kind": "spectrogram", "fft": 32, "window": 32, "hop": 8, "log": "none", "spectrum": "power", "shape": "hamming"},
]  # fmt: skip


def node(document, frames, qtype):
    """A Features node alone, lowered."""
    made = from_document(document, "front end")
    sound = Value("x", (1, made.rows(frames), made.step), qtype=SOUND)
    y = Value("y", (1, frames, made.features), qtype=qtype)
    one = Node("node", "Features", ("x",), ("y",), made.attrs())
    return verify(lower(Graph("g", (one,), {"x": sound, "y": y}, ("x",), ("y",))))


def small_graphs():
    bins = {"kind": "spectrogram", "window": 20, "hop": 10, "fft": 32, "shape": "hamming"}
    return [node(document, 3, qtype) for document in ({"kind": "mfcc", **SHORT, "shape": "hamming"}, bins) for qtype in TYPES]


def random_graph(chance):
    fft = chance.choice((32, 64, 128, 256, 512))
    document = {
        "kind": chance.choice(("mfcc", "logmel", "spectrogram")), "fft": fft, "window": chance.randint(fft // 2, fft),
        "hop": chance.randint(fft // 4, fft), "spectrum": chance.choice(("magnitude", "power")), "floor": 10.0 ** chance.randint(-9, -5),
        "shape": chance.choice(("hann", "hamming", "rectangular")), "log": chance.choice(("ln", "decibel")),
    }  # fmt: skip
    if document["kind"] != "spectrogram":
        document |= {"bands": chance.randint(3, 6), "low_hz": 0.0, "high_hz": 8000.0, "triangles": chance.choice(("mel", "hz"))}
    if document["kind"] == "mfcc":
        document["coefficients"] = chance.randint(1, document["bands"])
    return node(document, chance.randint(1, 4), chance.choice(TYPES))


@pytest.mark.parametrize("qtype", TYPES, ids=lambda q: q.dtype if q else "float32")
@pytest.mark.parametrize("document", KINDS, ids=lambda d: " ".join(map(str, d.values())))
def test_kernels(document, qtype):
    graph = node(document, 4, qtype)
    check_kernels(graph.nodes[0], graph, np.random.default_rng(1))
