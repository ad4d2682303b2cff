"""Thousands of runs over bad lines: is a wrong result ever taken for right, does anything ever hang?

    python benchmarks/faults.py --runs 10000 --board mps2-an386 --log faults.jsonl --json faults.json

A run is a new session over a line with randomly chosen faults, in which two samples are written, run and read, and in
every fourth run the layers are looked at. Firmware and UART are real, in QEMU; the faults are put in between. Every run
follows from its number. A run ends with the right outputs, or with an error in words; anything else is counted as WRONG
or HANG. What each run gave goes to the log as it comes; runs that are in it are not done again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import fake_bundle  # noqa: E402
import numpy as np  # noqa: E402
from faulty_line import Faults, FaultyLine, Monitor  # noqa: E402

from glowembed.errors import GlowembedError  # noqa: E402
from glowembed.graph.target import load_board  # noqa: E402
from glowembed.image.build import Image, build  # noqa: E402
from glowembed.image.glue import read_manifest  # noqa: E402
from glowembed.run import qemu, serial  # noqa: E402
from glowembed.run.device import Device, Info, Settings  # noqa: E402
from glowembed.run.line import Line, program_line, qemu_line  # noqa: E402
from glowembed.run.pieces import pieces  # noqa: E402

BYTES = 96
PATIENCE = 20.0
"""Seconds: on a busy machine the emulator itself may stand still for some."""

BAUD = 921600
HANG_SECONDS = 3 * serial.PATIENCES * PATIENCE + 10.0
"""A run has three steps at most, and none takes longer than PATIENCES times the patience."""

RATES = (1e-4, 1e-2)
IDLE = ("-icount", "sleep=on,align=on")
"""The emulator sleeps where it is faster than the chip: most of a run is waiting, and several may run side by side."""

INFO = Info(25_000_000, 2 * BYTES, 0, 0, 0, 2, "", "", "", "")
"""What the sessions take the device for: asking takes five requests."""

KINDS = ("drop", "duplicate", "corrupt", "reorder")
# y[i] = x[i] ^ x[(i + 1) % BYTES], by way of a copy, so that a wrong input byte shows
SOURCE = f"""#include "fake.h"
int32_t fake_run_layers(void *arena, int32_t first, int32_t count) {{
    uint8_t *const x = arena;
    for (int32_t layer = first; layer < first + count; ++layer) {{
        for (int32_t i = 0; i < {BYTES}; ++i) {{
            if (layer == 0) {{
                x[{BYTES} + i] = (uint8_t)(x[i] ^ x[(i + 1) % {BYTES}]);
            }} else {{
                x[i] = x[{BYTES} + i];
            }}
        }}
    }}
    return 0;
}}
int32_t fake_run(void *arena) {{ return fake_run_layers(arena, 0, 2); }}
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    number: int
    what: str
    faults: int
    retries: int
    sessions: int
    seconds: float
    words: str = ""


def firmware(folder: Path, board: str) -> tuple[Image, dict[str, object]]:
    """The test bundle for this board; its input and output lie in one place, as in real bundles."""
    place = load_board(board)
    bundle = fake_bundle.write(folder / "bundle", place.target, SOURCE, arena=2 * BYTES)
    manifest = json.loads((bundle / "bundle.json").read_text())
    tensors = {"x": 0, "y": 0, "a": BYTES}
    for tensor in (*manifest["inputs"], *manifest["outputs"], *(t for la in manifest["layers"] for t in la["outputs"])):
        tensor |= {"offset": tensors[tensor["name"]], "bytes": BYTES, "shape": [BYTES]}
    (bundle / "bundle.json").write_text(json.dumps(manifest))
    return build(bundle, place, folder / "build", "serial"), read_manifest(bundle)


def right(sample: np.ndarray) -> bytes:
    """The outputs that the bundle must give."""
    return bytes(sample ^ np.roll(sample, -1))


def random_faults(source: random.Random) -> Faults:
    """One to three kinds of faults, at rates from 0.01 % to 1 % of the bytes; now and then noise and late answers."""
    rate = math.exp(source.uniform(*map(math.log, RATES)))
    chosen = source.sample(KINDS, source.randrange(1, 4))
    rate /= len(chosen)
    extra: dict[str, float] = {}
    if source.random() < 0.2:
        extra["noise"] = rate / 20
    if source.random() < 0.2:
        extra |= {"late": source.choice((0.02, 0.1, 0.4)), "late_share": 0.03}
    return Faults(**dict.fromkeys(chosen, rate), **extra, banner_noise=source.choice((0, 0, 0, 20, 300)))


def one_run(number: int, line: Line, image: Image, manifest: dict[str, object], monitor: Monitor | None) -> Outcome:
    source = random.Random(number)
    faulty = FaultyLine(line, random_faults(source), source)
    if monitor is not None and source.random() < 0.05:
        faulty.on_piece = _reset_once(monitor, source.randrange(2, 6))
    device = Device(faulty, Settings(BAUD, PATIENCE, nonce=lambda: source.getrandbits(32)))
    session = serial.Session(device, manifest, image)
    session.info, session.seconds = INFO, 0.02
    samples = np.frombuffer(source.randbytes(2 * BYTES), np.uint8).reshape(2, BYTES)
    begun = time.monotonic()
    what, words = "right", ""
    try:
        for sample in samples:
            found = session.step(partial(serial.infer, session, sample.tobytes()))
            what = what if found == right(sample) else "WRONG"
        values = dict.fromkeys(("a", "y"), right(samples[0]))
        if number % 4 == 0 and serial.locate(session, samples[0].tobytes(), values, pieces(manifest)) is not None:
            what = "WRONG"
    except GlowembedError as error:
        what, words = "error", f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun
    what = "HANG" if seconds > HANG_SECONDS else what
    return Outcome(number, what, faulty.count, device.traffic.retries, device.traffic.sessions, seconds, words)


def _reset_once(monitor: Monitor, pieces: int):  # noqa: ANN202
    left = [pieces]

    def count_down() -> None:
        left[0] -= 1
        if left[0] == 0:
            monitor.reset()

    return count_down


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--board", default="mps2-an386", help="an emulated board, or host")
    parser.add_argument("--log", type=Path, help="one line of JSON for each run, and where to go on")
    parser.add_argument("--json", type=Path, help="the summary")
    arguments = parser.parse_args()
    done = read_log(arguments.log)
    numbers = range(arguments.first, arguments.first + arguments.runs)
    left = [number for number in numbers if number not in done]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, manifest = firmware(folder, arguments.board)
        monitor = None if image.board.name == "host" else Monitor(folder / "qmp")
        if monitor is None:
            context = program_line([str(image.elf)], "the harness here")
        else:
            context = qemu_line([*qemu.machine(image.board, image.elf), *IDLE, *monitor.words], arguments.board)
        with context as line:
            for number in left:
                outcome = one_run(number, line, image, manifest, monitor)
                done[number] = outcome
                _tell(outcome, arguments.log)
    result = summary(arguments.board, [done[number] for number in numbers])
    print(json.dumps(result, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(result["wrong"] > 0 or result["hangs"] > 0)


def read_log(log: Path | None) -> dict[int, Outcome]:
    """The runs that an earlier call has done; a line that was cut off is no record."""
    lines = log.read_text(encoding="utf-8").splitlines() if log is not None and log.is_file() else []
    outcomes = (Outcome(**json.loads(line)) for line in lines if line.endswith("}"))
    return {outcome.number: outcome for outcome in outcomes}


def _tell(outcome: Outcome, log: Path | None) -> None:
    """Print a wrong outcome at once."""
    if outcome.what != "right":
        print(outcome, file=sys.stderr, flush=True)
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(asdict(outcome)))


def summary(board: str, outcomes: list[Outcome]) -> dict[str, object]:
    """Counts, and the longest run."""
    counts = Counter(outcome.what for outcome in outcomes)
    totals = {name: sum(getattr(o, name) for o in outcomes) for name in ("faults", "retries", "sessions", "seconds")}
    return {
        "board": board,
        "runs": len(outcomes),
        "right": counts["right"],
        "errors": counts["error"],
        "wrong": counts["WRONG"],
        "hangs": counts["HANG"],
        "runs_with_faults": sum(outcome.faults > 0 for outcome in outcomes),
        **{name: round(total, 1) for name, total in totals.items()},
        "longest_seconds": round(max(outcome.seconds for outcome in outcomes), 2),
        "error_texts": dict(Counter(o.words[:80] for o in outcomes if o.words)),
    }


if __name__ == "__main__":
    sys.exit(main())
