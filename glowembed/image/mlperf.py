"""Describes a bundle to the tool of MLPerf Tiny. In: the manifest of a bundle. Out: the text of ge_mlperf.h for the
harness.

The official tool asks the board for its model and sends that model's stimuli: bytes that were quantized for the
reference model, pixels, or floats. A bundle with the shapes of one of the benchmark's models takes them as the tool
sends them; any other bundle reports its own name and takes its own input bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from glowembed.errors import UsageError
from glowembed.records import dataclass

Tensor = Mapping[str, Any]


@dataclass(frozen=True)
class Stimulus:
    """A model of the benchmark and the stimuli of the tool: real = scale * (byte - zero_point), or floats."""

    model: str
    inputs: int
    outputs: int
    dtype: str
    scale: float = 1.0
    zero_point: int = 0


# github.com/mlcommons/tiny, benchmark/reference_submissions/*/submitter_implemented.cpp (th_load_tensor), and the
# quantization of the reference models' inputs.
STIMULI = (
    Stimulus("kws01", 490, 12, "int8", 0.5847029089927673, 83),
    Stimulus("vww01", 96 * 96 * 3, 2, "uint8", 1 / 255),
    Stimulus("ic01", 32 * 32 * 3, 10, "uint8"),
    Stimulus("ad01", 640, 640, "float32"),
)


def header(manifest: Mapping[str, Any]) -> str:
    """The text of ge_mlperf.h. Raises UsageError for a bundle whose tensors the protocol cannot describe."""
    source, result = _only(manifest, "inputs"), _only(manifest, "outputs")
    stimulus = _stimulus(manifest["name"], source, result)
    is_float = stimulus.dtype == "float32"
    table = [0] if is_float else [_stored(stimulus, byte, source) & 0xFF for byte in range(256)]
    rows = [", ".join(f"{value}u" for value in table[at : at + 16]) for at in range(0, len(table), 16)]
    lines = ",\n    ".join(rows)
    return f"""/* Made from bundle.json of {manifest["name"]}. */
#ifndef GE_MLPERF_H
#define GE_MLPERF_H

#include <stdint.h>

#define GE_MLPERF_MODEL "{stimulus.model}"
#define GE_MLPERF_INPUTS {stimulus.inputs}u
#define GE_MLPERF_IS_FLOAT {int(is_float)} /* stimuli are floats, else bytes */
#define GE_MLPERF_IS_ERROR {int(stimulus.model == "ad01")} /* the result is the mean squared error against the input */
#define GE_MLPERF_STIMULUS_BYTES {stimulus.inputs * (4 if is_float else 1)}u
#define GE_MLPERF_INPUT_SCALE {_float(source)}
#define GE_MLPERF_INPUT_ZERO {int(source["zero_point"])}
#define GE_MLPERF_OUTPUTS {stimulus.outputs}u
#define GE_MLPERF_OUTPUT_SCALE {_float(result)}
#define GE_MLPERF_OUTPUT_ZERO {int(result["zero_point"])}

/* byte of a stimulus -> byte of the input */
static const uint8_t ge_mlperf_input[{len(table)}] = {{
    {lines},
}};

#endif
"""


def _only(manifest: Mapping[str, Any], kind: str) -> Tensor:
    tensors = manifest[kind]
    if len(tensors) == 1 and tensors[0]["dtype"] == "int8":
        only: Tensor = tensors[0]
        return only
    found = ", ".join(f"{tensor['name']} {tensor['dtype']}" for tensor in tensors)
    raise UsageError(
        f"the firmware for MLPerf Tiny takes one int8 tensor and gives one; the {kind} of this bundle are {found}: "
        "compile the model in int8, or use --transport serial"
    )


def _stimulus(name: str, source: Tensor, result: Tensor) -> Stimulus:
    shape = (int(source["bytes"]), int(result["bytes"]))
    named = {(entry.inputs, entry.outputs): entry for entry in STIMULI}
    return named.get(shape) or Stimulus(name, *shape, "int8", float(source["scale"]), int(source["zero_point"]))


def _stored(stimulus: Stimulus, byte: int, source: Tensor) -> int:
    """The stored input number for a byte of the stimulus; halves are rounded away from zero, as in the reference
    firmware.
    """
    value = byte - 256 if stimulus.dtype == "int8" and byte > 127 else byte
    scaled = stimulus.scale * (value - stimulus.zero_point) / float(source["scale"])
    return max(-128, min(127, int(math.copysign(math.floor(abs(scaled) + 0.5), scaled)) + int(source["zero_point"])))


def _float(tensor: Tensor) -> str:
    text = f"{float(tensor['scale']):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
