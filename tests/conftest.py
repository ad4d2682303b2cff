"""Skips tests whose requirements are absent, and makes hypothesis deterministic.

Markers state what a test requires (pyproject.toml lists them). Where that is absent the test is skipped with the
reason. With CI=true an absent compiler or QEMU fails the test instead, so that CI cannot pass without running the
tests.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import forked_scons
import pytest
from checkout import ROOT, SHARED
from hypothesis import settings

from glowembed.image import build
from glowembed.law import blas  # noqa: F401

# marker -> (commands, any of which is enough; the Debian package)
TOOLS = {
    "cc": (("gcc", "clang"), "gcc"),
    "arm_gcc": (("arm-none-eabi-gcc",), "gcc-arm-none-eabi"),
    "qemu": (("qemu-system-arm",), "qemu-system-arm"),
    "riscv": (("riscv64-unknown-elf-gcc",), "gcc-riscv64-unknown-elf"),
}

settings.register_profile("glowembed", derandomize=True, deadline=None, database=None)
settings.load_profile("glowembed")

# gcc 13 misplaces locals aligned to 64 bytes in the stack that AddressSanitizer keeps to find uses after return.
os.environ.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--board-port", metavar="PORT", help="serial port of a real board, for the tests marked board")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (commands, package) in TOOLS.items():
        if item.get_closest_marker(marker) and not any(map(shutil.which, commands)):
            reason = f"no {' or '.join(commands)} (Debian package {package})"
            pytest.fail(reason, pytrace=False) if in_ci() else pytest.skip(reason)
    if item.get_closest_marker("shared") and not SHARED.is_dir():
        pytest.skip(f"no shared models at {SHARED}")
    if item.get_closest_marker("board") and not item.config.getoption("--board-port"):
        pytest.skip("no real board (--board-port)")


@pytest.fixture(autouse=True)
def quick_scons(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of how firmware is built, and of what else a process meets, start SCons as users do; the others fork for it."""
    if not {"image", "test_paths.py", "test_faults.py"} & set(request.path.parts):
        monkeypatch.setattr(build, "_run", forked_scons.run)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def digits() -> Path:
    """The folder of the included example: model.onnx and data.npz."""
    return ROOT / "examples" / "digits"


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of the shared models; mark the test with `shared`."""
    return SHARED
