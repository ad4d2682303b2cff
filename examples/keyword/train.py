"""Make whistles in noise, train a network that hears which of them rise, and write it with a recording to a folder.

    python examples/keyword/train.py build/keyword

Writes model.onnx, data.npz (sound for calibration and tests), recording.wav and events.csv (begin and end of each rising whistle in the
recording). Everything is made here, in numpy, with fixed seeds; it takes some seconds.
"""

from __future__ import annotations

import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.float64]

RATE, WINDOW, HOP, POINTS = 16000, 480, 320, 512
BANDS, LOW_HZ, HIGH_HZ, FLOOR, SCALE, OFFSET = 16, 200.0, 4000.0, 0.001, 0.3, 1.0
"""As in frontend.yaml."""

FRAMES = 24
LENGTH = (FRAMES - 1) * HOP + WINDOW
"""Samples of a window: half a second."""

STEP = 160
"""Samples of a row of the input `pcm`: the largest number that divides WINDOW and HOP."""

NOTHING, RISING, FALLING = range(3)
CHANNELS, TAPS, EPOCHS, BATCH = (BANDS, 16, 16, 24), 5, 30, 32


def whistle(rng: np.random.Generator, kind: int) -> Array:
    """A tone with two harmonics that rises or falls by more than half an octave, or keeps its pitch, for 0.3 seconds or so."""
    seconds, start = rng.uniform(0.25, 0.36), rng.uniform(500, 1100)
    ratio = {RISING: rng.uniform(1.5, 2.2), FALLING: 1 / rng.uniform(1.5, 2.2), NOTHING: rng.uniform(0.95, 1.05)}[kind]
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(start * ratio ** (time / seconds) * (2.0 if kind == FALLING else 1.0)) / RATE
    fade = np.minimum(1, np.minimum(time, seconds - time) / 0.02)
    tone: Array = fade * sum(np.sin(k * phase) / k for k in (1, 2, 3)) * 10 ** rng.uniform(-1.6, -0.7)
    return tone


def noise(rng: np.random.Generator, count: int) -> Array:
    """Noise that is louder at low frequencies."""
    white = rng.normal(size=count)
    return (white + 3 * np.convolve(white, np.ones(16) / 16, "same")) * 10 ** rng.uniform(-3.2, -2.4)


def windows(rng: np.random.Generator, count: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Windows of sound and their classes: a third each of rising and of falling whistles, and noise with other tones or none."""
    labels = rng.integers(0, 3, count)
    sound = np.stack([noise(rng, LENGTH) for _ in range(count)])
    for one, label in zip(sound, labels, strict=True):
        tone = whistle(rng, int(label))
        if label == NOTHING and rng.random() < 0.5:
            tone = whistle(rng, int(rng.integers(0, 3)))
            tone = tone[: int(len(tone) * 0.35)] * (rng.random() < 0.8)  # a beginning is no whistle yet
        start = int(rng.integers(0, LENGTH - len(tone)))
        one[start : start + len(tone)] += tone
    return np.clip(sound, -1, 1), labels


def recording(rng: np.random.Generator, count: int) -> tuple[Array, list[tuple[float, float]]]:
    """A whistle of one kind or another every 0.9 seconds or so, in noise, and when the rising ones begin and end."""
    parts, events, at = [noise(rng, RATE)], [], RATE
    for number in range(count):
        kind = (RISING, FALLING, NOTHING)[number % 3]
        tone = whistle(rng, kind)
        if kind == RISING:
            events.append((at / RATE, (at + len(tone)) / RATE))
        gap = int(rng.uniform(0.5, 0.8) * RATE)
        part = noise(rng, len(tone) + gap)
        part[: len(tone)] += tone
        parts.append(part)
        at += len(part)
    return np.clip(np.concatenate(parts), -1, 1), events


def features(sound: Array) -> Array:
    """What the front end of frontend.yaml makes of samples from -1 to 1: [windows, samples] -> [windows, frames, bands]."""
    shape = np.hanning(WINDOW + 1)[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW, axis=-1)[..., ::HOP, :]
    spectrum = np.abs(np.fft.rfft(frames * shape, POINTS))
    mel = 1127 * np.log(1 + np.arange(POINTS // 2 + 1) * RATE / POINTS / 700)
    edges = np.linspace(1127 * np.log(1 + LOW_HZ / 700), 1127 * np.log(1 + HIGH_HZ / 700), BANDS + 2)
    rising = (mel[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel[:, None]) / (edges[2:] - edges[1:-1])
    bands = spectrum @ np.maximum(0, np.minimum(rising, falling))
    logarithms: Array = SCALE * np.log(bands + FLOOR) + OFFSET
    return logarithms


def columns(x: Array) -> Array:
    """The windows of a convolution in time: [n, frames, channels] -> [n, frames - TAPS + 1, TAPS * channels]."""
    seen = np.lib.stride_tricks.sliding_window_view(x, TAPS, axis=1)  # [n, frames, channels, TAPS]
    return seen.transpose(0, 1, 3, 2).reshape(*seen.shape[:2], -1)


def forward(p: dict[str, Array], x: Array) -> tuple[list[Array], list[Array], Array]:
    """The windows of each convolution, its outputs, and the probabilities."""
    seen, outputs = [], []
    for i in range(len(CHANNELS) - 1):
        seen.append(columns(x))
        x = np.maximum(0, seen[-1] @ p[f"w{i}"] + p[f"b{i}"])
        outputs.append(x)
    logits = x.mean(axis=1) @ p["w"] + p["b"]
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return seen, outputs, e / e.sum(axis=1, keepdims=True)


def gradients(p: dict[str, Array], x: Array, labels: npt.NDArray[np.int64]) -> dict[str, Array]:
    """Those of the mean cross entropy."""
    seen, outputs, y = forward(p, x)
    error = (y - np.eye(3)[labels]) / len(x)
    found = {"w": outputs[-1].mean(axis=1).T @ error, "b": error.sum(axis=0)}
    back = np.repeat((error @ p["w"].T)[:, None] / outputs[-1].shape[1], outputs[-1].shape[1], axis=1)
    for i in reversed(range(len(seen))):
        back = back * (outputs[i] > 0)
        found[f"w{i}"], found[f"b{i}"] = np.tensordot(seen[i], back, ((0, 1), (0, 1))), back.sum(axis=(0, 1))
        taps = (back @ p[f"w{i}"].T).reshape(*back.shape[:2], TAPS, -1)
        back = np.zeros((len(x), back.shape[1] + TAPS - 1, taps.shape[3]))
        for k in range(TAPS):
            back[:, k : k + taps.shape[1]] += taps[:, :, k]
    return found


def train(x: Array, labels: npt.NDArray[np.int64], rng: np.random.Generator) -> dict[str, Array]:
    """Adam with a falling rate."""
    shapes = {f"w{i}": (TAPS * CHANNELS[i], CHANNELS[i + 1]) for i in range(len(CHANNELS) - 1)} | {
        "w": (CHANNELS[-1], 3)
    }
    p = {name: rng.normal(size=shape) * (2 / shape[0]) ** 0.5 for name, shape in shapes.items()}
    p |= {f"b{name[1:]}": np.zeros(shape[1]) for name, shape in shapes.items()}
    first, second = ({name: np.zeros_like(value) for name, value in p.items()} for _ in range(2))
    total = EPOCHS * -(-len(x) // BATCH)
    for step, batch in enumerate(batches(len(x), rng), 1):
        for name, g in gradients(p, x[batch], labels[batch]).items():
            first[name] += 0.1 * (g - first[name])
            second[name] += 0.01 * (g**2 - second[name])
            scaled = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8)
            p[name] = p[name] - 0.004 * (1 - step / total) * scaled
    return p


def batches(count: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    for _ in range(EPOCHS):
        order = rng.permutation(count)
        yield from (order[i : i + BATCH] for i in range(0, count, BATCH))


def as_onnx(p: dict[str, Array]) -> onnx.ModelProto:
    """The network: bands and frames in, probabilities out."""
    constants, nodes, x = {}, [], "features"
    for i in range(len(CHANNELS) - 1):
        constants[f"w{i}"] = p[f"w{i}"].reshape(TAPS, CHANNELS[i], CHANNELS[i + 1]).transpose(2, 1, 0)
        constants[f"b{i}"] = p[f"b{i}"]
        nodes += [helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}")]
        nodes += [helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}")]
        x = f"r{i}"
    constants |= {"w": p["w"], "b": p["b"]}
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
    ]
    nodes += [
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"], "classify"),
        helper.make_node("Softmax", ["logits"], ["score"], "softmax"),
    ]
    tensors = [numpy_helper.from_array(np.ascontiguousarray(a, np.float32), name) for name, a in constants.items()]
    given = helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, BANDS, FRAMES])
    made = helper.make_tensor_value_info("score", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "keyword", [given], [made], tensors)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="glowembed example"
    )


def as_pcm(sound: Array) -> npt.NDArray[np.int16]:
    return np.round(sound * 32767).astype(np.int16)


def write_wav(path: Path, pcm: npt.NDArray[np.int16]) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm.astype("<i2").tobytes())


def main(folder: Path) -> float:
    """Write the files; the share of test windows that the network classifies right."""
    folder.mkdir(parents=True, exist_ok=True)
    (x, labels), (seen, known) = windows(np.random.default_rng(0), 900), windows(np.random.default_rng(1), 200)
    p = train(features(x), labels, np.random.default_rng(2))
    right = float((forward(p, features(seen))[2].argmax(axis=1) == known).mean())
    onnx.save(as_onnx(p), folder / "model.onnx")
    rows = LENGTH // STEP
    np.savez(
        folder / "data.npz",
        calib_pcm=as_pcm(x[:60]).reshape(60, rows, STEP),
        test_pcm=as_pcm(seen[:40]).reshape(40, rows, STEP),
    )
    sound, events = recording(np.random.default_rng(3), 9)
    write_wav(folder / "recording.wav", as_pcm(sound))
    (folder / "events.csv").write_text("".join(f"{begin:.3f},{end:.3f}\n" for begin, end in events))
    return right


if __name__ == "__main__":
    print(f"{100 * main(Path(sys.argv[1])):.1f} % of the test windows are classified right")
