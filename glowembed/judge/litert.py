"""Runs a TensorFlow Lite file with LiteRT's reference kernels, if the package ai-edge-litert is installed.

In: the path of a model, samples. Out: its outputs, one row per sample. If the samples are a sequence, LiteRT keeps the
variables of the model from one to the next; otherwise it sets them to zero before each sample.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import ToolError
from glowembed.graph.ir import Array
from glowembed.progress import SILENT, Progress
from glowembed.ranges.datasets import Dataset
from glowembed.read import onnxfile

PACKAGE = "ai_edge_litert"


def is_installed() -> bool:
    """Whether LiteRT is installed (the extra `tflite`)."""
    return importlib.util.find_spec(PACKAGE) is not None


def run(model: Path, dataset: Dataset, progress: Progress = SILENT) -> list[dict[str, Array]]:
    """The outputs by name of each sample, without the variables of the model, which LiteRT does not show. Raises ToolError if
    LiteRT cannot run the model.
    """
    try:
        interpreter = _interpreter(model)
        samples = progress.track(range(len(dataset)), "LiteRT")
        graph = onnxfile.read(model).model.graph
        inputs = [info.name for info, _ in zip(graph.input, interpreter.get_input_details(), strict=False)]
        outputs = [info.name for info, _ in zip(graph.output, interpreter.get_output_details(), strict=False)]
        hidden = {state.output: state.input for state in dataset.states if state.input not in inputs}

        def run_sample(sample: Mapping[str, Array]) -> dict[str, Array]:
            if not hidden:
                interpreter.reset_all_variables()
            return {out: sample[kept] for out, kept in hidden.items()} | _outputs(interpreter, inputs, outputs, sample)

        rows = dataset.model_runs(samples, run_sample)
        return [{name: row[name] for name in outputs} for row in rows]
    except (RuntimeError, ValueError, OSError) as error:
        raise ToolError(f"LiteRT cannot run {model}: {str(error).strip().splitlines()[0]}") from error


def _interpreter(model: Path) -> Any:
    """One with the reference kernels, or where these lack an operator, with the others; never with XNNPACK, which rounds
    otherwise.
    """
    package = importlib.import_module(f"{PACKAGE}.interpreter")
    kinds = package.OpResolverType
    for kind in (kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        try:
            made = package.Interpreter(str(model), experimental_op_resolver_type=kind, num_threads=1)
            made.allocate_tensors()
            return made
        except (RuntimeError, ValueError):
            if kind is not kinds.BUILTIN_REF:
                raise
    raise AssertionError("the last kind returns or raises")


def _outputs(
    interpreter: Any, inputs: Sequence[str], outputs: Sequence[str], sample: Mapping[str, Array]
) -> dict[str, Array]:
    for name, detail in zip(inputs, interpreter.get_input_details(), strict=True):
        interpreter.set_tensor(detail["index"], np.asarray(sample[name], detail["dtype"]).reshape(detail["shape"]))
    interpreter.invoke()
    details = interpreter.get_output_details()
    return {name: interpreter.get_tensor(d["index"]).copy() for name, d in zip(outputs, details, strict=True)}
