"""The stack of a bundle: the compiler's bound holds what a run uses, through pointers to functions too, on every core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compiled_models import compiled
from emulated import BOARDS
from small_models import model, node, weights

from glowembed.graph.plan import PlanOptions
from glowembed.graph.target import load_board, load_target
from glowembed.image import elf
from glowembed.image.build import build
from glowembed.judge.validation import validate
from glowembed.pipeline import CompileOptions, compile_model


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("goal", ["balanced", "ram"])
@pytest.mark.parametrize("target", sorted(BOARDS))
def test_a_run_keeps_within_the_bound(target: str, goal: str, digits: Path, tmp_path: Path) -> None:
    """The stack is painted before a run. Of `ram` the plan is streamed: a tape, ring buffers."""
    options = CompileOptions(target=target, plan=PlanOptions("greedy", effort=0, optimize=goal))
    bundle = compile_model(digits / "model.onnx", tmp_path / "net", options, digits / "data.npz")
    assert bool(bundle.manifest["schedule"]["groups"]) or goal == "balanced"
    result = validate(bundle, digits / "data.npz", BOARDS[target], 2, build_dir=tmp_path / "build").json
    used, bound = result["memory"]["stack"], result["memory"]["stack_computed"]
    assert 0 < used <= bound, (used, bound)
    assert bound <= used + 96, "a bound that nothing comes near is of no use; some branches this network does not take"


CALLS = """
#include <stdint.h>
typedef int32_t (*function)(int32_t);
__attribute__((noinline)) static int32_t small(int32_t x) { volatile int32_t a[4]; a[0] = x; return a[0]; }
__attribute__((noinline)) static int32_t large(int32_t x) { volatile int32_t a[100]; a[0] = x; return a[0]; }
__attribute__((noinline)) static int32_t larger(int32_t x) { volatile int32_t a[200]; a[0] = x; return a[0]; }
static const function table[2] = {small, large};
int32_t direct(int32_t x);
int32_t direct(int32_t x) { return small(x) + larger(x); }
int32_t through(int32_t x);
int32_t through(int32_t x) { return table[x & 1](x) + 1; }
int32_t jumps(int32_t x);
int32_t jumps(int32_t x) {
    static const void *const labels[2] = {__extension__ &&one, __extension__ &&two};
    __extension__ ({ goto *labels[x & 1]; });
one:
    x += 3;
two:
    return x * 5;
}
"""
NOWHERE = """
#include <stdint.h>
int32_t nowhere(int32_t x, int32_t (*f)(int32_t));
int32_t nowhere(int32_t x, int32_t (*f)(int32_t)) { return f(x) + 1; }
"""


@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_a_pointer_may_lead_to_what_has_its_address_stored(target: str, tmp_path: Path) -> None:
    """`larger` is only called by its name, so no pointer leads there; nor does one lead to `jumps`, whose labels are in a table."""
    core = load_target(target)

    def built(text: str) -> Path:
        (tmp_path / "a.c").write_text(text)
        command = [core.compiler, *core.cflags, "-c", "a.c", "-o", "a.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return tmp_path / "a.o"

    path = built(CALLS)
    assert elf.addressed_functions(path) == {"small", "large"}
    through, direct = elf.stack_depth([path], ["through"]), elf.stack_depth([path], ["direct"])
    assert through is not None
    assert through.indirect == ("large", "small")
    assert 400 <= through.bytes < 480
    assert [name for name, _ in through.path] == ["through", elf.INDIRECT, "large"]
    assert direct is not None
    assert direct.bytes >= 800
    path = built(NOWHERE)
    assert elf.stack_depth([path], ["nowhere"]) is None
    assert elf.stack_depth([path], ["nowhere"], callbacks=True) is not None


@pytest.mark.arm_gcc
@pytest.mark.parametrize("channels", [1, 3, 4, 16])
def test_convolutions_on_cortex_m4_take_little(channels: int, tmp_path: Path) -> None:
    """Windows, points, odd channels: every chain of functions below a kernel."""
    layers = [
        node("Conv", "x a", "y", pads=[1, 1, 1, 1]),
        node("Conv", "y b", "z", pads=[0, 0, 1, 1], strides=[2, 2]),
        node("Conv", "z c", "u", dilations=[2, 2]),
        node("Conv", "u d", "v"),
    ]
    kernels = {
        "a": weights(channels, channels, 3, 3), "b": weights(16, channels, 3, 3), "c": weights(channels, 16, 3, 3),
        "d": weights(channels, channels, 1, 1),
    }  # fmt: skip
    network = model(layers, {"x": [1, channels, 24, 24]}, kernels, ["v"])
    bundle = compiled(network, tmp_path, "cortex-m4", plan=PlanOptions("greedy", effort=0, optimize="ram"))
    image = build(bundle.path, load_board("mps2-an386"), tmp_path / "build")
    assert image.stack is not None
    assert image.stack <= 464, image.deepest


@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m55"])
def test_convolutions_leave_the_stack_to_the_program(target: str, tmp_path: Path) -> None:
    """State in addition to registers is in scratch. The shapes, for each of the kernels: widths below and above 16,
    with a remainder.
    """
    layers = [
        node("Conv", "x a", "s", pads=[1, 1, 1, 1]),
        node("Conv", "s b", "t", pads=[1, 1, 1, 1]),
        node("Conv", "t c", "u", group=32, pads=[1, 1, 1, 1]),
        node("Conv", "u d", "v"),
        node("Conv", "v e", "w", group=20, pads=[2, 2, 2, 2]),
    ]
    kernels = {
        "a": weights(16, 3, 3, 3), "b": weights(32, 16, 3, 3), "c": weights(32, 1, 3, 3), "d": weights(20, 32, 1, 1),
        "e": weights(20, 1, 5, 5),
    }  # fmt: skip
    network = model(layers, {"x": [1, 3, 12, 12]}, kernels, ["w"])
    bundle = compiled(network, tmp_path, target, plan=PlanOptions("greedy", effort=0, optimize="ram"))
    image = build(bundle.path, load_board(BOARDS[target]), tmp_path / "build")
    assert image.stack is not None
    assert image.stack <= 408, image.deepest
