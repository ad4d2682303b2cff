"""Several RAMs: every byte in one of them, none over its size, the bits as ever, and firmware that has them in two memories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from kernel_graphs import kernel_graph, portable

from glowembed.errors import UsageError
from glowembed.graph.plan import Places, PlanOptions, Ram
from glowembed.judge.validation import build_bundle, validate
from glowembed.options.words import named_rams
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.plan import memory, replay
from glowembed.plan.costs import Costs
from glowembed.reference import run_int
from glowembed.run.host import HostModel

TWO = (Ram("zbt_data", 200), Ram("psram", 600))


def compiled(digits: Path, folder: Path, target: str, rams: tuple[Ram, ...], **more: object) -> Bundle:
    plan = PlanOptions("greedy", effort=0, optimize="ram", rams=rams)
    options = CompileOptions(target, name="net", plan=plan, **more)  # type: ignore[arg-type]
    return compile_model(digits / "model.onnx", folder / "net", options, digits / "data.npz")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("optimize", ["ram", "speed"])
def test_random_networks_in_three_memories(seed: int, optimize: str, tmp_path: Path) -> None:
    """The replay knows offsets only; each RAM is within its size, and no row table leaves its RAM."""
    graph = kernel_graph(seed, 8, tmp_path)
    sizes = (Ram("a", 64 + 40 * seed), Ram("b", 200))
    options = PlanOptions("greedy", effort=0, optimize=optimize, rams=sizes)  # type: ignore[arg-type]
    ordered, plan = memory.plan_network(graph, 4, options, Costs(portable()))
    replay.check(ordered, plan)
    limits = {ram.name: ram.size for ram in sizes}
    assert all(0 < ram.size <= limits[ram.name] for ram, _ in plan.rams)
    ends = [plan.arena_size, *(start + ram.size for ram, start in plan.rams)]
    for buffer, offset in plan.buffers:
        ram, inside = plan.ram_at(offset)
        size = plan.arena_size if ram is None else ram.size
        assert inside + buffer.size <= size
    assert plan.size == max(ends)
    for slots in plan.slots.values():
        assert len({plan.ram_at(offset)[0] for offset in slots if offset}) <= 1
    for name in (*ordered.inputs, *ordered.outputs):
        assert plan.ram_at(plan.offsets[name])[0] is None


@pytest.mark.cc
@pytest.mark.parametrize("io", ["arena", "caller"])
def test_the_same_bits_on_the_host(io: str, digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "generic", (Ram("one", 300), Ram("two", 1 << 20)), places=Places(io, "rows"))  # type: ignore[arg-type]
    assert [ram["name"] for ram in bundle.manifest["rams"]] == ["one", "two"]
    x = np.random.default_rng(0).integers(-128, 128, bundle.graph.values["image"].shape).astype(np.int8)
    found, expected = HostModel(bundle.path).run_stored({"image": x}), run_int(bundle.graph, {"image": x})
    np.testing.assert_array_equal(found["logits"], expected["logits"])


@pytest.mark.arm_gcc
@pytest.mark.qemu
def test_two_memories_of_an_emulated_board(digits: Path, tmp_path: Path) -> None:
    """The linker puts each part where board.toml says; the layers are checked in a second build with one arena."""
    bundle = compiled(digits, tmp_path, "cortex-m4", TWO)
    sizes = {ram["name"]: ram["size"] for ram in bundle.manifest["rams"]}
    assert set(sizes) == {"zbt_data", "psram"}
    result = validate(bundle, digits / "data.npz", "mps2-an386", 3, layers=True)
    assert result.bit_exact
    image = build_bundle(bundle, "mps2-an386")
    symbols = subprocess.run(["arm-none-eabi-nm", image.elf], capture_output=True, text=True, check=True).stdout
    address = {line.split()[-1]: int(line.split()[0], 16) for line in symbols.splitlines()}
    for name in sizes:
        place = image.board.memory(name)
        assert place.start <= address[f"ram_{name}"] < place.start + place.size
    assert address["ge_stack_limit"] == image.board.memory("zbt_data").start, "the stack stays at the bottom"


@pytest.mark.arm_gcc
def test_a_board_without_that_memory_is_refused(digits: Path, tmp_path: Path) -> None:
    bundle = compiled(digits, tmp_path, "cortex-m4", (Ram("dtcm", 600),))
    with pytest.raises(
        Exception, match=r"keeps \d+ bytes in the RAM 'dtcm', and board 'mps2-an386' has zbt_data, psram"
    ):
        build_bundle(bundle, "mps2-an386")


def test_the_limit_is_that_of_the_arena(digits: Path, tmp_path: Path) -> None:
    whole = compiled(digits, tmp_path, "cortex-m4", ()).manifest["arena"]["size"]
    options = PlanOptions("greedy", ram=whole - 200, rams=(Ram("tcm", 1024),))
    bundle = compile_model(
        digits / "model.onnx", tmp_path / "net", CompileOptions(name="net", plan=options), digits / "data.npz"
    )
    assert bundle.manifest["arena"]["size"] <= whole - 200


@pytest.mark.parametrize("words", [["dtcm"], ["=4K"], ["a=1", "A=2"], ["a=0"], ["9=4K"]])
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--memory"):
        named_rams(words)


def test_the_words() -> None:
    assert named_rams(["dtcm=4K", "ram2=100"]) == (Ram("dtcm", 4096), Ram("ram2", 100))
