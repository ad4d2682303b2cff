"""glowembed compiles ONNX models to static, bit-exact int8 C bundles for Cortex-M and x86.

    >>> from pathlib import Path
    >>> import glowembed
    >>> options = glowembed.CompileOptions(target="x86-64")
    >>> bundle = glowembed.compile_model(Path("model.onnx"), Path("out"), options, data=Path("data.npz"))
    >>> network = glowembed.load("out")  # runs here, on numpy arrays: network(x) -> {output name: array}

What is here is the public interface; it is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from glowembed import version

if TYPE_CHECKING:
    from glowembed.errors import GlowembedError
    from glowembed.graph.registry import use_ops
    from glowembed.judge.inspection import inspect_model
    from glowembed.judge.validation import Validation, build_bundle, validate
    from glowembed.pipeline import Bundle, CompileOptions, compile_model, load_bundle, profile_model
    from glowembed.ranges.datasets import Dataset, ImageOptions, Source
    from glowembed.ranges.profile import Profile
    from glowembed.run.host import load

__version__ = version.VERSION

# onnxruntime from 1.29 on has telemetry, which names models and is on by default, unless this is set before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_WHERE = {
    "Bundle": "pipeline",
    "CompileOptions": "pipeline",
    "Dataset": "ranges.datasets",
    "GlowembedError": "errors",
    "ImageOptions": "ranges.datasets",
    "Profile": "ranges.profile",
    "Source": "ranges.datasets",
    "Validation": "judge.validation",
    "build_bundle": "judge.validation",
    "compile_model": "pipeline",
    "inspect_model": "judge.inspection",
    "load": "run.host",
    "load_bundle": "pipeline",
    "profile_model": "pipeline",
    "use_ops": "graph.registry",
    "validate": "judge.validation",
}

__all__ = [
    "Bundle",
    "CompileOptions",
    "Dataset",
    "GlowembedError",
    "ImageOptions",
    "Profile",
    "Source",
    "Validation",
    "__version__",
    "build_bundle",
    "compile_model",
    "inspect_model",
    "load",
    "load_bundle",
    "profile_model",
    "use_ops",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'glowembed' has no attribute {name!r}")
    return getattr(importlib.import_module(f"glowembed.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
