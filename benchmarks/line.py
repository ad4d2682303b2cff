"""Measures the costs of the serial line: bytes beside the tensors, bytes per second, the time to a first verified
output, the harness.

    python benchmarks/line.py kws.bundle --data data.npz --board mps2-an386

Every figure in seconds is the best of `--runs`: an emulator's UART keeps to no baud rate, and other programs disturb it.
Sizes are those of runtime_c/harness as linked on the bundle's target, without the arena and the bundle's own glue.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from glowembed import pipeline  # noqa: E402
from glowembed.image import elf  # noqa: E402
from glowembed.image.build import Image  # noqa: E402
from glowembed.image.glue import GUARD_BYTES  # noqa: E402
from glowembed.judge.validation import build_bundle, stored_inputs, validate  # noqa: E402
from glowembed.pipeline import Bundle  # noqa: E402
from glowembed.ranges import datasets  # noqa: E402
from glowembed.ranges.datasets import Dataset  # noqa: E402
from glowembed.reference import run_int  # noqa: E402
from glowembed.run import serial  # noqa: E402
from glowembed.run.ondevice import Link  # noqa: E402


def first_output(bundle: Bundle, image: Image, dataset: Dataset) -> float:
    """Seconds from the start of the emulator to an output whose bits have been compared."""
    inputs = {name: array[0] for name, array in stored_inputs(bundle.graph, dataset).items()}
    values = run_int(bundle.graph, inputs)
    sample = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs.values())
    right = b"".join(np.ascontiguousarray(values[name]).tobytes() for name in bundle.graph.outputs)
    begun = time.monotonic()
    with serial.board_line(image, None) as line:
        session = serial.open_session(line, image, bundle.manifest)
        assert session.step(lambda device: serial.infer(session, sample, device)) == right
        return time.monotonic() - begun


def harness(image: Image) -> dict[str, int]:
    """Bytes of code and constants, and of variables, of the harness."""
    objects = [path for path in (image.elf.parent / "obj/harness").glob("*.o") if path.stem != "ge_bundle"]
    sizes = [elf.sizes(path) for path in objects]
    return {
        "code": sum(size.code + size.rodata + size.data for size in sizes),
        "ram": sum(size.data + size.bss for size in sizes) + 2 * GUARD_BYTES,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--board", default="mps2-an386", help="an emulated board")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    bundle = pipeline.load_bundle(arguments.bundle)
    image = build_bundle(bundle, arguments.board, transport="serial")
    dataset = datasets.load(arguments.data, datasets.input_specs(bundle.graph), "test", None).every(arguments.samples)
    link = Link("serial")
    results = [validate(bundle, dataset, arguments.board, link=link).json for _ in range(arguments.runs)]
    line = max((result["line"] for result in results), key=lambda found: found["bytes_per_second"])
    figures = {
        "model": bundle.manifest["model"]["file"],
        "board": arguments.board,
        "samples": len(dataset),
        "bit_exact": all(result["bit_exact"] for result in results),
        "line": line,
        "seconds_to_first_output": min(first_output(bundle, image, dataset) for _ in range(arguments.runs)),
        "harness": harness(image),
    }
    print(json.dumps(figures, indent=1))
    return int(not figures["bit_exact"])


if __name__ == "__main__":
    sys.exit(main())
