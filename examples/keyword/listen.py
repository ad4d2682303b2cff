"""Feed a recording to the bundle, hop by hop, on this computer or over the UART of an emulated board, and draw the scores.

    python examples/keyword/listen.py build/keyword/net build/keyword/recording.wav --events build/keyword/events.csv -o scores.svg
    python examples/keyword/listen.py build/keyword/net build/keyword/recording.wav --board mps2-an386 -o scores.svg

It prints when detections begin. On a board, main.c computes the scores and decides; here, the same C in a shared library and the twin of
the detector in Python do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import glowembed
from glowembed import resources
from glowembed.graph.target import Board, load_board, load_target
from glowembed.image import glue
from glowembed.judge import detection
from glowembed.law.detector import beginnings
from glowembed.run.qemu import machine

HERE = Path(__file__).parent
FULL, HEARD = 1, 2
"""As in main.c."""

Pcm = npt.NDArray[np.int16]


def read_wav(path: Path, rate: int) -> Pcm:
    with wave.open(str(path), "rb") as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, rate):
            raise SystemExit(f"{path}: expected one channel of 16 bits at {rate} Hz")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def on_host(bundle: Path, element: int, hops: Sequence[Pcm]) -> Iterator[int]:
    """The stored scores, one for each hop with which a window is full."""
    model = glowembed.load(bundle)
    stream = glowembed.load_bundle(bundle).graph.stream
    assert stream is not None, "compiled with --stream"
    for number, hop in enumerate(hops, 1):
        score = model.run_stored({"pcm": hop})["score"]
        if number >= stream.hops:
            yield int(score.reshape(-1)[element])


def firmware(bundle: Path, board: Board, folder: Path) -> Path:
    """main.c with the bundle, the header that `glowembed detect` wrote beside it, and the start-up code of the board."""
    assert board.linker_script is not None, f"{board.name} has no linker script"
    target, runtime, common = load_target(board.target), resources.runtime_c(), resources.boards() / "common"
    (folder / "ge_board.h").write_text(glue.board_h(board))
    (folder / "memory.ld").write_text(glue.memory_ld(board))
    sources = [HERE / "main.c", *(bundle / name for name in glue.c_sources(glue.read_manifest(bundle))), *board.sources]
    include = [
        folder,
        bundle,
        bundle.parent,
        runtime,
        runtime / "harness",
        runtime / "harness" / target.architecture,
        common,
    ]
    link = [*target.ldflags, "-T", board.linker_script, "-L", folder, "-L", common]
    command = [
        target.compiler,
        *target.cflags,
        *(f"-I{path}" for path in include),
        *sources,
        *link,
        "-o",
        "keyword.elf",
    ]
    subprocess.run([str(word) for word in command], cwd=folder, check=True)
    return folder / "keyword.elf"


def on_board(bundle: Path, name: str, hops: Sequence[Pcm]) -> tuple[list[int], list[int]]:
    """The stored scores, and the numbers of those with which detections begin, as the emulated board answers over its UART."""
    board, scores, heard = load_board(name), [], []
    with tempfile.TemporaryDirectory() as folder:
        command = [*machine(board, firmware(bundle.resolve(), board, Path(folder))), "-serial", "stdio"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            for number, hop in enumerate(hops):
                if number % 50 == 0:
                    print(f"hop {number} of {len(hops)}", file=sys.stderr)
                process.stdin.write(hop.astype("<i2").tobytes())
                process.stdin.flush()
                score, flags = process.stdout.read(2)
                if flags & HEARD:
                    heard.append(len(scores))
                if flags & FULL:
                    scores.append(score - 256 if score > 127 else score)
            process.kill()
    return scores, heard


def plot(
    scores: Sequence[float], first: float, hop: float, heard: Sequence[float], events: Sequence[tuple[float, float]]
) -> str:
    """Scores over time as SVG: events are grey, detections are red lines."""
    seconds, width, height = first + hop * len(scores), 1000, 200

    def x(time: float) -> str:
        return f"{40 + (width - 60) * time / seconds:.1f}"

    def y(score: float) -> str:
        return f"{20 + (height - 50) * (1 - score):.1f}"

    shapes = [
        *(
            f'<rect x="{x(a)}" y="20" width="{float(x(b)) - float(x(a)):.1f}" height="{height - 50}" fill="#ddd"/>'
            for a, b in events
        ),
        *(f'<line x1="40" x2="{width - 20}" y1="{y(s)}" y2="{y(s)}" stroke="#ccc"/>' for s in (0, 0.5, 1)),
        *(f'<text x="8" y="{y(s)}">{s}</text>' for s in (0, 0.5, 1)),
        *(f'<text x="{x(t)}" y="{height - 8}">{t} s</text>' for t in range(int(seconds) + 1)),
        *(f'<line x1="{x(t)}" x2="{x(t)}" y1="20" y2="{height - 30}" stroke="#c22" stroke-width="2"/>' for t in heard),
    ]
    points = " ".join(f"{x(first + hop * (i + 1))},{y(score)}" for i, score in enumerate(scores))
    line = f'<polyline points="{points}" fill="none" stroke="#15c" stroke-width="1.5"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, *shapes, line, "</svg>", ""])


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("bundle", type=Path)
    words.add_argument("recording", type=Path)
    words.add_argument("--board", help="an emulated board, such as mps2-an386; without it, this computer")
    words.add_argument("--events", type=Path, help="a file with begin and end of what should be heard")
    words.add_argument("-o", "--out", type=Path, default=Path("scores.svg"))
    given = words.parse_args()
    print(
        ", ".join(
            f"{time:.2f} s" for time in listen(given.bundle, given.recording, given.board, given.events, given.out)
        )
    )


def listen(bundle: Path, recording: Path, board: str | None, events: Path | None, out: Path) -> list[float]:
    """Draw the scores, and return when detections begin."""
    opened = glowembed.load_bundle(bundle)
    detector, stream = detection.read(HERE / "detector.yaml", opened), opened.graph.stream
    tensor = next(t for t in opened.manifest["inputs"] if t["name"] == "pcm")
    samples, rate = int(tensor["bytes"]) // 2, 16000
    pcm = read_wav(recording, rate)
    assert stream is not None
    hops = np.split(pcm[: len(pcm) // samples * samples], len(pcm) // samples)
    if board is None:
        scores = list(on_host(bundle, detector.element, hops))
        heard = beginnings(detector.settings, scores)
    else:
        scores, heard = on_board(bundle, board, hops)
    hop, first = samples / rate, (stream.hops - 1) * samples / rate
    times = [first + hop * (number + 1) for number in heard]
    score = opened.graph.values["score"].qtype
    assert score is not None
    known = detection.read_events(events) if events is not None else []
    out.write_text(plot(score.dequantize(np.array(scores)).tolist(), first, hop, times, known))
    return times


if __name__ == "__main__":
    main()
