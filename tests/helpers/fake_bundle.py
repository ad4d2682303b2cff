"""Bundles written by hand, for tests of build and run: no compiler involved. In: C text. Out: a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

HEADER = """#ifndef FAKE_H
#define FAKE_H
#include <stdint.h>
int32_t fake_run(void *arena);
int32_t fake_run_layers(void *arena, int32_t first, int32_t count);
#endif
"""
# a = clamp(x + 1), y = clamp(2 a); 8 bytes each, one after the other in the arena
ADD_AND_DOUBLE = """#include "fake.h"
extern const int8_t fake_weights[8];
static int8_t clamp(int32_t value) { return (int8_t)((value > 127) ? 127 : ((value < -128) ? -128 : value)); }
int32_t fake_run_layers(void *arena, int32_t first, int32_t count) {
    int8_t *const x = arena;
    for (int32_t layer = first; layer < first + count; ++layer) {
        for (int32_t i = 0; i < 8; ++i) {
            if (layer == 0) {
                x[8 + i] = clamp(x[i] + fake_weights[i]);
            } else {
                x[16 + i] = clamp(2 * x[8 + i]);
            }
        }
    }
    return 0;
}
int32_t fake_run(void *arena) { return fake_run_layers(arena, 0, 2); }
"""
WEIGHTS = """#include <stdint.h>
extern const int8_t fake_weights[];
const int8_t fake_weights[{size}] = {{1, 1, 1, 1, 1, 1, 1, 1}};
"""


def reference(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, y) for samples (n, 8) of uint8, which hold int8."""
    a = np.clip(samples.view(np.int8).astype(np.int32) + 1, -128, 127)
    y = np.clip(2 * a, -128, 127)
    return a.astype(np.int8).view(np.uint8), y.astype(np.int8).view(np.uint8)


def samples(count: int) -> np.ndarray:
    """Rows that cover all bytes; 251 is prime, so neighbouring rows differ."""
    return (np.arange(count * 8, dtype=np.int64) * 251 % 256).astype(np.uint8).reshape(count, 8)


def whole(body: str) -> str:
    """C of a bundle whose run is `body` (an expression of type int32_t) after the declarations in it."""
    return f"""#include "fake.h"
{body}
int32_t fake_run_layers(void *arena, int32_t first, int32_t count) {{
    (void)first;
    (void)count;
    return fake_run(arena);
}}
"""


def write(
    folder: Path, target: str, source: str = ADD_AND_DOUBLE, weights: int = 8, arena: int = 24, layers: int = 2
) -> Path:
    """Writes a bundle with one input of 8 bytes at 0 and one output of 8 bytes at 16."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fake.h").write_text(HEADER)
    (folder / "fake.c").write_text(source)
    (folder / "fake_weights.c").write_text(WEIGHTS.format(size=weights))
    manifest = {
        "schema": 1,
        "name": "fake",
        "target": target,
        "hash": "0123456789abcdef" * 4,
        "arena": {"size": arena, "align": 16},
        "inputs": [tensor("x", 0)],
        "outputs": [tensor("y", 16)],
        "layers": [layer("add", tensor("a", 8)), layer("double", tensor("y", 16))] + [layer("none")] * (layers - 2),
        "sources": ["fake.c", "fake_weights.c"],
        "weights_bytes": weights,
        "macs": 0,
    }
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return folder


def tensor(name: str, offset: int) -> dict[str, Any]:
    return {"name": name, "id": name, "shape": [8], "dtype": "int8", "scale": 1.0, "zero_point": 0} | {
        "offset": offset,
        "bytes": 8,
    }


def layer(name: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "op": name, "kernel": name, "macs": 0, "outputs": list(outputs)}
