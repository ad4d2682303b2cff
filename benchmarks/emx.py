"""Float networks against emx-onnx-cgen on an emulated Cortex-M4: cycles, RAM and flash, by one ruler.

    python benchmarks/emx.py --models ../shared/models --emx COMMAND [--only kws,resnet8]

COMMAND is the program of emx-onnx-cgen, installed apart (`pip install emx-onnx-cgen` in an environment of its own). Its C takes the place
of the network in a bundle of ours, so that both are built with the same flags and counted by the same `glowembed measure`. To its advantage,
temporaries are static instead of on the heap, the functions of libm that it calls are short inline ones, and its inputs and outputs are not counted
in its RAM.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from glowembed.__main__ import main as glowembed
from glowembed.graph.target import load_target

MODELS = ("digits_cnn", "kws", "resnet8", "ad01")
LIBM = """#pragma GCC system_header
static inline float peer_max(float a, float b) { return a > b || b != b ? a : b; }
#define fmaxf peer_max
static float peer_exp(float x) { float y = 1.0f + x / 1024; for (int i = 0; i < 10; i++) y *= y; return y; }
#define expf peer_exp
"""
RUN = """int32_t net_run(void *arena) {{
    static float result[{elements}];
    peer((void *){input}(arena), (void *)result);
    return NET_OK;
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--emx", required=True)
    parser.add_argument("--only", default=",".join(MODELS))
    words = parser.parse_args()
    print("| | float32, emx-onnx-cgen: M cycles | RAM | flash | float32 | RAM | flash | int8 | RAM | flash |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in words.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row = _row(words.models / name, words.emx, Path(folder))
        print(f"| {name} | {' | '.join(row)} |", flush=True)


def _row(model: Path, emx: str, place: Path) -> list[str]:
    cells = []
    for dtype in ("float32", "int8"):
        call("compile", model / "model.onnx", "--data", model / "data.npz", "--target", "cortex-m4", "--dtype", dtype,
             "--name", "net", "-o", place / dtype)  # fmt: skip
        cycles, built = _measured(place / dtype, place)
        arena = json.loads((place / dtype / "bundle.json").read_text())["arena"]["size"]
        flash = built["code"] + built["rodata"] + built["data"] + built["weights"]
        cells += [cycles, f"{arena + built['stack']:,}", f"{flash:,}"]
    shutil.copytree(place / "float32", place / "emx")
    _replace(model / "model.onnx", emx, place / "emx")
    cycles, built = _measured(place / "emx", place)
    flash, ram = _sections(place / "emx")
    return [cycles, f"{ram + built['stack']:,}", f"{flash:,}", *cells]


def _sections(bundle: Path) -> tuple[int, int]:
    """The bytes of flash and of static RAM of the C of emx-onnx-cgen alone."""
    flags = [flag for flag in load_target("cortex-m4").cflags if not flag.startswith(("-fcallgraph-info", "-W"))]
    subprocess.run(["arm-none-eabi-gcc", *flags, "-w", "-c", "peer.c"], cwd=bundle, check=True)
    words = ["arm-none-eabi-size", "peer.o"]
    size = subprocess.run(words, cwd=bundle, check=True, capture_output=True, text=True).stdout
    text, data, bss = (int(word) for word in size.splitlines()[1].split()[:3])
    return text + data, data + bss


def _replace(model: Path, emx: str, bundle: Path) -> None:
    """Let NAME_run of a bundle call the C of emx-onnx-cgen."""
    peer = bundle / "peer.c"
    command = [emx, "compile", str(model), str(peer), "--model-name", "peer", "--large-temp-threshold", "0"]
    subprocess.run([*command, "--large-weight-threshold", "0"], check=True, capture_output=True)
    rest, sign, body = peer.read_text().partition("void peer(")
    peer.write_text(LIBM + rest + sign + re.sub(r"^    (?=float tmp)", "    static ", body, flags=re.M))
    manifest = json.loads((bundle / "bundle.json").read_text())
    (given,), (wanted,) = manifest["inputs"], manifest["outputs"]
    run = RUN.format(input=f"NET_INPUT_{given['id'].upper()}", elements=wanted["elements"])
    text = (bundle / "net.c").read_text().replace('#include "net.h"', '#include "net.h"\n#include "peer.c"', 1)
    (bundle / "net.c").write_text(
        re.sub(r"int32_t net_run\(void \*arena\) \{.*?\n\}\n", lambda _: run, text, flags=re.S)
    )


def _measured(bundle: Path, place: Path) -> tuple[str, dict[str, int]]:
    """M cycles, and what `build` says."""
    call("measure", bundle, "--json", place / "measured.json")
    call("build", bundle, "--json", place / "built.json", "--build-dir", place / "build")
    measured, built = (json.loads((place / f"{name}.json").read_text()) for name in ("measured", "built"))
    return f"{measured['cycles_estimate'] / 1e6:.2f}", built


def call(*words: object) -> None:
    if glowembed([str(word) for word in words]) != 0:
        raise SystemExit(f"glowembed {words[0]} failed")


if __name__ == "__main__":
    main()
