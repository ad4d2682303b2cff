"""Models that are objects of a Python program. In: a path, an onnx ModelProto or a torch Module. Out: the path of a
file.

An object is written as an ONNX file, because a bundle records the file that it was made from, and `validate` runs that
file. PyTorch is never imported here; a program that has one of its modules has already imported it.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from glowembed.errors import UsageError
from glowembed.files.output import named_errors, write_file
from glowembed.graph import cnames
from glowembed.graph.ir import Array, Shape

Model = Any
"""A path, an onnx ModelProto or a torch.nn.Module."""

Examples = Callable[[Sequence[str]], Mapping[str, Array] | None]
"""A function from the names of inputs to the first calibration sample of each, or to None if there are none."""


def model_file(model: Model, folder: Path, name: str | None, shapes: Mapping[str, Shape], examples: Examples) -> Path:
    """The path of `model`: the path itself, or an ONNX file in `folder` to which a ModelProto or a torch Module is
    written.

    The file is called `name`, or after the graph or the class. A torch Module is exported with `examples` or, if there
    are none, with zeros of `shapes`, which name its inputs in order. Raises UsageError for any other object, and if the
    export fails.
    """
    if isinstance(model, Path | str):
        return Path(model)
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if not is_module and not isinstance(model, ModelProto):
        raise UsageError(
            f"a model is a path, an onnx ModelProto or a torch.nn.Module, not an object of the type {type(model).__name__}"
        )
    own = type(model).__name__ if is_module else model.graph.name
    path = folder / f"{cnames.identifier(name or own)}.onnx"
    content = _examples(model, shapes, examples) if is_module else _serialized(model)
    with named_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        write_file(path, content)
    else:
        _export(torch, model, path, content)
    return path


def _serialized(model: ModelProto) -> bytes:
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except ValueError as error:
        raise UsageError(f"the ModelProto cannot be written as one file: {error}; save it and give its path") from error


def _examples(module: Any, shapes: Mapping[str, Shape], examples: Examples) -> Mapping[str, Array]:
    """An array for each input of a Module, with a batch axis of size 1."""
    parameters = inspect.signature(module.forward).parameters.values()
    names = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    found = examples(names)
    if found is not None:
        return found
    if len(shapes) != len(names):
        raise UsageError(
            f"{type(module).__name__}: its export needs an example of each input ({', '.join(names)}): give samples as arrays, or"
            " the shapes of the inputs in CompileOptions(shapes=...)"
        )
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def _export(torch: Any, module: Any, path: Path, examples: Mapping[str, Array]) -> None:
    arrays = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in examples.values())
    options = {"dynamo": importlib.util.find_spec("onnxscript") is not None}
    known = inspect.signature(torch.onnx.export).parameters
    options = {key: value for key, value in options.items() if key in known}
    training = module.training
    module.eval()
    try:
        with redirect_stdout(StringIO()):  # the exporter prints its progress
            torch.onnx.export(module, arrays, str(path), input_names=list(examples), **options)
    except Exception as error:
        raise UsageError(
            f"torch.onnx.export failed on {type(module).__name__}: {error}; export it yourself and give the path of the file"
        ) from error
    finally:
        module.train(training)
