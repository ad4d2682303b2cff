"""Runs a bundle call by call on the host while all bytes that are not alive are garbage and must not be read.

In: a graph with kernels, its plan, inputs. Out: the outputs, or PoisonError. Before each call every byte of the arena that no live
buffer covers, because its value has died or is not born, gets garbage and is poisoned for AddressSanitizer, which stops
the first kernel that touches it; undefined behaviour stops the program too. Poison counts in eight bytes: up to seven dead
bytes before a live one are only garbage.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from glowembed.emit import bundle as emit
from glowembed.emit.manifest import Origin
from glowembed.graph.cnames import identifier
from glowembed.graph.ir import Array, Graph
from glowembed.graph.plan import Plan
from glowembed.graph.target import Target

GUARD = 256

FLAGS = ("-std=gnu11", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wno-missing-prototypes")

PROGRAM = """
#include "{name}.c"
#include <sanitizer/asan_interface.h>
#include <stdio.h>

static uint8_t memory[{guard} + {size} + {guard}] __attribute__((aligned(64)));
static uint8_t alive[{size}];

int main(int count, char **words) {{
    uint8_t *const arena = memory + {guard};
    FILE *const file = fopen(words[count - 1], "rb");
    int32_t call[6]; /* layer, first row, last row + 1; in strips: the group, the number of the tile, where its shifts begin in a table */
    if (file == NULL || fread(arena, 1, {size}, file) != {size}) {{ return 1; }}
    ASAN_POISON_MEMORY_REGION(memory, {guard});
    ASAN_POISON_MEMORY_REGION(arena + {size}, {guard});
    for (unsigned i = 1; fread(call, sizeof call, 1, file) == 1; i++) {{
        if (fread(alive, 1, {size}, file) != {size}) {{ return 1; }}
        ASAN_UNPOISON_MEMORY_REGION(arena, {size});
        for (unsigned b = 0; b < {size}; b++) {{
            if (!alive[b]) {{ arena[b] = (uint8_t)(b * 37 + i * 11 + 5); }}
        }}
        for (unsigned b = 0, end; b < {size}; b = end) {{
            for (end = b + 1; end < {size} && alive[end] == alive[b]; end++) {{ }}
            if (!alive[b]) {{ ASAN_POISON_MEMORY_REGION(arena + b, end - b); }}
        }}
        {call}
    }}
    fclose(file);
    ASAN_UNPOISON_MEMORY_REGION(arena, {size});
    return fwrite(arena, 1, {size}, stdout) == {size} ? 0 : 1;
}}
"""


class PoisonError(AssertionError):
    """Raised when a kernel touches dead memory or does what C leaves undefined; it holds the sanitizer's report."""


def live_at_calls(plan: Plan, steps: list[int]) -> Array:
    """One row of `plan.size` flags for each of these steps: the bytes that may be touched in it."""
    alive = np.zeros((len(steps), plan.size), np.uint8)
    for buffer, offset in plan.buffers:
        for birth, death in buffer.lives or ((buffer.birth, buffer.death),):
            during = [i for i, step in enumerate(steps) if birth <= step <= death]
            alive[during, offset : offset + buffer.size] = 1
    return alive


def poisoned_run(
    graph: Graph, plan: Plan, target: Target, folder: Path, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Stored outputs by name, of stored inputs that are in the arena."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in emit.emit(graph, plan, target, Origin("0", "m", {})).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    name = identifier(graph.name)
    (folder / "poison.c").write_text(
        PROGRAM.format(name=name, size=plan.size, guard=GUARD, call=_one_call(graph, plan))
    )
    program = folder / "poison"
    sources = [str(folder / "poison.c"), str(folder / f"{name}_weights.c")]
    subprocess.run(["cc", *FLAGS, "-I", str(folder), *sources, "-o", str(program)], check=True)
    (folder / "calls.bin").write_bytes(_calls(graph, plan, inputs))
    done = subprocess.run(
        [program, folder / "calls.bin"],
        capture_output=True,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"},
    )
    if done.returncode != 0:
        raise PoisonError(done.stderr.decode(errors="replace")[:4000])
    arena = np.frombuffer(done.stdout, np.uint8)
    return {n: _at(arena, plan, graph, n).view(_dtype(graph, n)) for n in graph.outputs}


def _calls(graph: Graph, plan: Plan, inputs: Mapping[str, Array]) -> bytes:
    """The arena before the first call; for each call its layer, its rows, and what is alive."""
    arena = np.full(plan.size, 0xA5, np.uint8)
    for name, array in inputs.items():
        _at(arena, plan, graph, name)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    numbers = {i: n for n, i in enumerate(i for i, node in enumerate(graph.nodes) if node.kernel)}
    called = [(i, more) for i, more in _in_order(plan) if graph.nodes[plan.steps[i].node].kernel]
    parts = [arena.tobytes()]
    for (i, more), alive in zip(called, live_at_calls(plan, [i for i, _ in called]), strict=True):
        step = plan.steps[i]
        first, last = step.first + step.shift, step.last + step.shift
        parts += [np.asarray([numbers[step.node], first, last, *more], np.int32).tobytes(), alive.tobytes()]
    return b"".join(parts)


def _in_order(plan: Plan) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """The numbers of all steps in order of execution, each with its group in strips, its tile, and where its shifts
    begin.
    """
    groups = {number: i for i, group in enumerate(plan.tiled) for number in group.tiles}
    done: set[int] = set()
    for i, step in enumerate(plan.steps):
        number = groups.get(step.node, -1)
        if number < 0:
            yield i, (-1, 0, 0)
        elif number not in done:
            done.add(number)
            group = plan.tiled[number]
            mine = list(range(i, i + group.sections[-1]))
            for at, tile in group.calls(mine):
                section = sum(at - i >= end for end in group.sections)
                yield at, (number, tile, section // 2 * len(group.tiles))


def _one_call(graph: Graph, plan: Plan) -> str:
    """The statement that runs a call."""
    whole = len([n for n in graph.nodes if n.kernel]) > sum(len(group.tiles) for group in plan.tiled)
    shifts = [f"strip_shifts{i}" if len(group.sections) > 1 else "NULL" for i, group in enumerate(plan.tiled)]
    statements = ["if (call[3] < 0) { run_rows(arena, call[0], call[1], call[2]); }"] if whole else []
    statements += [
        f"if (call[3] == {i}) {{ run_tile(arena, call[0], call[4], {table} + call[5], call[1]); }}".replace(
            "NULL + call[5]", "NULL"
        )
        for i, table in enumerate(shifts)
    ]
    return "\n        ".join(statements)


def _at(arena: Array, plan: Plan, graph: Graph, name: str) -> Array:
    return arena[plan.offsets[name] : plan.offsets[name] + graph.values[name].bytes]


def _dtype(graph: Graph, name: str) -> str:
    value = graph.values[name]
    return value.qtype.dtype if value.qtype is not None else value.dtype
