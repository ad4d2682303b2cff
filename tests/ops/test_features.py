"""The front end: features_s16_s8, features_s16_s16, features_s16_f32."""

import numpy as np
import pytest
from kernel_checker import check_kernels

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
    """Lower a graph that consists of one Features node."""
    made = from_document(document, "front end")
    sound = Value("x", (1, made.rows(frames), made.step), qtype=SOUND)
    y = Value("y", (1, frames, made.features), qtype=qtype)
    one = Node("node", "Features", ("x",), ("y",), made.attrs())
    return verify(lower(Graph("g", (one,), {"x": sound, "y": y}, ("x",), ("y",))))


def small_graphs():
    bins = {"kind": "spectrogram", "window": 20, "hop": 10, "fft": 32, "shape": "hamming"}
    return [
        node(document, 3, qtype)
        for document in ({"kind": "mfcc", **SHORT, "shape": "hamming"}, bins)
        for qtype in TYPES
    ]


def random_graph(chance):
    fft = chance.choice((32, 64, 128, 256, 512))
    document = {
        "kind": chance.choice(("mfcc", "logmel", "spectrogram")), "fft": fft, "window": chance.randint(fft // 2, fft),
        "hop": chance.randint(fft // 4, fft), "spectrum": chance.choice(("magnitude", "power")), "floor": 10.0 ** chance.randint(-9, -6),
        "shape": chance.choice(("hann", "hamming", "rectangular")), "log": chance.choice(("ln", "decibel")),
    }  # fmt: skip
    if document["kind"] != "spectrogram":
        document |= {
            "bands": chance.randint(3, 6),
            "low_hz": 0.0,
            "high_hz": 8000.0,
            "triangles": chance.choice(("mel", "hz")),
        }
    if document["kind"] == "mfcc":
        document["coefficients"] = chance.randint(1, document["bands"])
    return node(document, chance.randint(1, 4), chance.choice(TYPES))


@pytest.mark.parametrize("qtype", TYPES, ids=lambda q: q.dtype if q else "float32")
@pytest.mark.parametrize("document", KINDS, ids=lambda d: " ".join(map(str, d.values())))
def test_kernels(document, qtype):
    graph = node(document, 4, qtype)
    check_kernels(graph.nodes[0], graph, np.random.default_rng(1))


def sounds(count, rate=16000):
    """Speech-like harmonics with formants, noise, a chirp, and clipping, -60 to 0 dB of full scale."""
    rng, t = np.random.default_rng(0), np.arange(count) / rate
    turn = 2 * np.pi * np.cumsum(120 + 20 * np.sin(6 * np.pi * t)) / rate
    formants = ((600, 400, 1.0), (1700, 500, 0.5), (2600, 500, 0.2))
    loud = [0.01 + sum(a * np.exp(-(((k * 120 - f) / w) ** 2)) for f, w, a in formants) for k in range(1, 60)]
    voice = sum(a * np.cos(k * turn) for k, a in enumerate(loud, 1))
    voice = voice / np.abs(voice).max() + rng.normal(size=count) * 0.003
    chirp = np.sin(2 * np.pi * (100 + 1500 * t) * t)
    kinds = {"voice": voice, "noise": rng.normal(size=count) / 4, "chirp": chirp, "clipped": 3 * voice}
    for name, wave in kinds.items():
        for decibel in (0, -20, -40, -60):
            scaled = np.clip(np.rint(wave * 32767 * 10 ** (decibel / 20)), -32768, 32767)
            yield name, scaled.astype(np.int16)


@pytest.mark.parametrize("spectrum_of", ["power", "magnitude"])
@pytest.mark.parametrize("shape", ["hamming", "hann"])
def test_the_law_is_near_the_exact_function(shape, spectrum_of):
    """The table in docs/frontend.md: 40 bands up to 8 kHz in dB, where a band is within 80 dB of the loudest of its frame."""
    document = {
        "kind": "logmel", "log": "decibel", "low_hz": 0.0, "high_hz": 8000.0, "shape": shape, "spectrum": spectrum_of,
        "floor": 1e-12 if spectrum_of == "power" else 1e-7,
    }  # fmt: skip
    made = from_document(document, "front end")
    params, constants = law(made.attrs(), 40, made.step, None, "node")
    worst = {}
    for name, wave in sounds(made.rows(40) * made.step):
        right = ops()["Features"].float_ref(made.attrs(), [wave.reshape(1, -1, made.step) / np.float32(32768)])[0][0]
        stored = {key: const.materialize() for key, const in constants.items()}
        found = kernel_ops()["features_s16_f32"].int_ref(params, [wave], stored)
        audible = right > right.max(axis=1, keepdims=True) - 80
        worst[name] = max(worst.get(name, 0.0), float(np.abs(found - right)[audible].max()))
    assert max(worst.values()) < 0.01, worst


@pytest.mark.parametrize("points", [32, 64, 256, 512, 1024, 4096])
@pytest.mark.parametrize("shape", ["hann", "rectangular"])
def test_no_number_of_the_spectrum_leaves_int32(points, shape):
    """Noise, square waves and random signs at full scale; and the spectrum is that of numpy within 1e-4 of its largest number."""
    rng = np.random.default_rng(points)
    window = np.ones(points) if shape == "rectangular" else 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(points) / points)
    signs = np.where(rng.random((20, points)) < 0.5, -32768, 32767)
    squares = np.where(np.arange(points) // 2 ** np.arange(5)[:, None] % 2, -32768, 32767)
    frames = np.concatenate([signs, squares, rng.normal(size=(10, points)) * 100, np.full((1, points), -32768)])
    frames = frames.astype(np.int16)
    re, im, h = spectrum.spectrum(frames, spectrum.stored_window(window, points), spectrum.turns(points))
    assert max(np.abs(re).max(), np.abs(im).max()) < 2**31
    unit = 2.0 ** (spectrum.window_bits(window, points) + h[:, None]) * spectrum.radix(points) / points
    exact = np.abs(np.fft.rfft(frames * window))
    assert (np.abs(np.hypot(re, im) / unit - exact).max(axis=1) < 1e-4 * exact.max(axis=1) + 0.01).all()


def test_logarithm_and_root():
    rng = np.random.default_rng(1)
    x = np.concatenate([np.arange(1, 300), 2 ** np.arange(62), 2 ** np.arange(1, 62) - 1, rng.integers(1, 2**62, 999)])
    assert np.abs(spectrum.log2(x, spectrum.logs()) / 65536 - np.log2(x.astype(float))).max() < 6e-5
    re, im = rng.integers(-(2**30), 2**30, (2, 999)) >> rng.integers(0, 30, 999)
    exact = np.hypot(re.astype(float), im.astype(float))
    assert (np.abs(spectrum.magnitude(re, im, spectrum.roots()) - exact) < 2.5e-5 * exact + 1).all()


def test_numbers_that_are_too_large_are_refused():
    made = from_document({"kind": "logmel", "spectrum": "power", "floor": 1.0}, "front end")
    with pytest.raises(UnsupportedModelError, match=r"node: a floor of 1 is too large .* the most is"):
        law(made.attrs(), 4, made.step, None, "node")
    made = from_document({"kind": "mfcc", "scale": 1e9}, "front end")
    with pytest.raises(UnsupportedModelError, match=r"node: its features reach .* steps of 1e-06, too many"):
        law(made.attrs(), 4, made.step, QType("int8", (1e-6,), (0,)), "node")
