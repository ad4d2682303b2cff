"""Writes the runtime and the kernels of a bundle into one header. In: a graph with kernels. Out: its text.

Includes, include guards and code that no layer needs are left out; kernels with instances are emitted once for each set
of numbers, kernels with levels once for each level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.emit.csource import (
    dispatcher,
    identifiers,
    included,
    kernel_source,
    level_includes,
    level_macros,
    level_names,
    level_source,
    prototype,
    without_own_headers,
    words_of,
)
from glowembed.emit.guards import guards
from glowembed.graph.cstruct import c_struct, narrowed, struct_name
from glowembed.graph.ir import Graph, Node
from glowembed.graph.isa import Layer, Level
from glowembed.graph.op import Kernel, in_mode
from glowembed.graph.registry import kernel, kernel_ops, levels, levels_of
from glowembed.graph.target import Target

FLOATS = """\
/* Floats are computed as it is written, one operation after the other: this is what gives the same bits everywhere. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#error "this bundle computes with floats as they are: compile it without -ffast-math and what belongs to it"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0
#error "this bundle computes with infinity and NaN: compile it without -ffinite-math-only"
#elif defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ < 0 || __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error "floats are computed with more bits than they have: compile this bundle with -msse2 -mfpmath=sse"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
"""

LONG_TEXTS = """\
/* One statement of assembly is one string literal, and some are longer than C99 asks of a compiler. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Woverlength-strings"
#endif
"""

NARROW = """\
/* Numbers of layers have types that may not reach the limits with which kernels compare them. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wtautological-compare"
#pragma clang diagnostic ignored "-Wtype-limits"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif
"""

KERNELS_HEAD = """\
/* The glowembed runtime and the kernels that {bundle} calls, and only these. Included by {bundle}.c alone.
 * Made by glowembed {version}; do not edit. MIT licence, as the rest of this bundle. */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>
#include <string.h>
"""


def kernels_header(
    graph: Graph,
    bundle: str,
    version: str,
    slot_type: str,
    target: Target,
    stored: Iterable[Any] = (),
    layers: Mapping[str, Layer] | None = None,
) -> str:
    """The runtime and exactly the kernels that the network calls, all static, in one header. stored: all params in the
    text of the bundle, for the narrowest structs; without them, numbers have 32 bits. layers: by name, those whose
    numbers are known and matter.
    """
    folder = resources.runtime_c()
    called = {kernel(n.kernel).symbol_for(n.params): n for n in graph.nodes if n.kernel}
    used = {**{kernel(n.kernel or "").symbol_for(n.params): n for n in _inner(called.values())}, **called}
    types = {struct_name(t): t for t in (kernel_ops()[n.op].params for n in (*graph.nodes, *used.values()) if n.kernel)}
    guard = f"{bundle.upper()}_KERNELS_H"
    parts = [KERNELS_HEAD.format(bundle=bundle, version=version, guard=guard)]
    parts += [
        _types((folder / "ge.h").read_text("ascii"), slot_type),
        _inlined((folder / "ge_fixedpoint.h").read_text("ascii")),
    ]
    by_type: dict[type, list[Any]] = {}
    # A kernel that calls another one assigns numbers of 32 bits to a copy of its params.
    changed = {type(n.params) for n in called.values() if (own := kernel(n.kernel or "")).inner and not own.inner_op}
    for params in [*stored, *(n.params for n in _inner(called.values()))] if stored else []:
        if type(params) not in changed:
            by_type.setdefault(type(params), []).append(params)
    narrow = {struct_name(t): narrowed(every) for t, every in by_type.items()}
    parts += [c_struct(types[t], narrow.get(t)) + "\n" for t in sorted(types)]
    nodes = [(s, n) for s, n in sorted(used.items()) if s in called or kernel(n.kernel or "").isa not in levels()]
    parts += [
        "/* The kernels. */\n"
        + "".join(prototype(kernel_ops()[n.op], kernel(n.kernel or ""), symbol, len(n.inputs)) for symbol, n in nodes)
    ]
    plain = {symbol: n for symbol, n in used.items() if kernel(n.kernel or "").isa not in levels()}
    kernels = [(kernel(n.kernel or ""), n.params) for _, n in sorted(plain.items())]
    texts = [(kernel_source(one, params), one.isa) for one, params in kernels]
    shared = [*_calling(called.values()), *_shared_by_levels(used.values())]
    parts += [_inlined(header.read_text("ascii")) for header in _helpers([*texts, *shared])]
    parts += [_inlined(text, core) for text, core in texts]
    for word, chosen in levels_used(graph, target).items():
        mine = [(s in called, n) for s, n in sorted(used.items()) if kernel(n.kernel or "").isa == word]
        inner = {kernel(n.kernel or "").macros for own, n in mine if not own}
        known = [(layers[n.name], kernel(n.kernel or "")) for n in graph.nodes if layers and n.name in layers]
        known = [(layer, one) for layer, one in known if one.isa == word and one.macros not in inner]
        parts += _levels(word, chosen, [n for _, n in mine], [n for own, n in mine if own], known)
    needs = guards(kernel(n.kernel or "").isa for n in used.values())
    pragmas = [*_pragmas("\n".join(parts)), *([NARROW] if narrow else [])]
    return "\n".join([parts[0], needs, *pragmas, *parts[1:], "#endif\n"])


def _inner(nodes: Iterable[Node]) -> Iterator[Node]:
    """For nodes whose kernels call other kernels: the nodes of these calls."""
    for node in nodes:
        own = kernel(node.kernel or "")
        if own.inner is not None:
            op = own.inner_op or in_mode(kernel_ops()[node.op].unpacks, kernel_ops()[node.op].requantization)
            calls = [replace(node, op=op, kernel=own.inner.symbol, params=p) for p in own.inner_params(node.params)]
            yield from (*calls, *_inner(calls))


def _calling(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    """The texts of those kernels of these nodes that call another kernel, without the headers of levels."""
    for node in nodes:
        own = kernel(node.kernel or "")
        if own.inner is not None:
            text = kernel_source(own, node.params)
            yield (without_own_headers(text, own.isa) if own.isa in levels() else text), ""


def _shared_by_levels(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    """The runtime headers that kernels with levels include."""
    for word in levels():
        mine = [n for n in nodes if kernel(n.kernel or "").isa == word]
        yield level_includes(word, [kernel_source(kernel(n.kernel or ""), n.params) for n in mine]), ""


def _pragmas(text: str) -> list[str]:
    """The pragmas that a compiler needs before these kernels."""
    found = identifiers(text)
    return [*([FLOATS] if found & {"float", "double"} else []), *([LONG_TEXTS] if "__asm__" in found else [])]


def levels_used(graph: Graph, target: Target) -> dict[str, dict[int, Level]]:
    """The levels, by number, of each ISA word with levels that kernels of this network need."""
    words = {kernel(n.kernel).isa for n in graph.nodes if n.kernel}
    return {word: levels_of(word, target) for word in levels() if word in words}


def _values(level: Level, layers: Iterable[tuple[Layer, Kernel]]) -> Mapping[str, str]:
    """The macros of a level's headers that have other values for kernels that compute these layers only."""
    mine: dict[Any, list[Layer]] = {}
    for layer, own in layers:
        if own.macros is not None:
            mine.setdefault(own.macros, []).append(layer)
    macros = level_macros(level)
    found = {name: value for f, own in mine.items() for name, value in f(own, macros).items()}
    return {name: value for name, value in found.items() if value != macros[name]}


def _levels(
    word: str,
    numbered: Mapping[int, Level],
    nodes: list[Node],
    called: list[Node],
    layers: list[tuple[Layer, Kernel]],
) -> list[str]:
    """The kernels of these nodes for each level of an ISA word, and for those in `called` the functions that choose the
    level. layers: those whose numbers the text may depend on, with their kernels.
    """
    texts, chosen = [kernel_source(kernel(n.kernel or ""), n.params) for n in nodes], list(numbered.values())
    portable, *others = (
        [_inlined(t) for t in level_source(word, level, texts, _values(level, layers))] for level in chosen
    )
    some = len(chosen) < len(levels()[word])
    here = f"#define GE_{word.upper()}_LEVELS_HERE 0x{sum(1 << number for number in numbered):X}u\n"
    return [
        *([here] if some else []),
        _inlined(resources.kernel_header(f"ge_{word}.h").read_text("ascii")),
        "\n".join(level_names(word, chosen, texts)) + "\n",
        *portable,
        f"#if GE_{word.upper()}_LEVELS\n",
        *(text for level in others for text in level),
        "#endif\n",
        *(dispatcher(word, chosen, kernel_ops()[n.op], kernel(n.kernel or "")) for n in called),
    ]


def _types(text: str, slot_type: str) -> str:
    """The text of ge.h with the bundle's own type ge_slot."""
    narrow = "typedef uint16_t ge_slot;"
    assert narrow in text
    return _inlined(text.replace(narrow, f"typedef {slot_type} ge_slot;"))


EVERYWHERE = ("", "ge.h", "ge_fixedpoint.h", "ge_params.h")
"""The headers that every bundle has."""


def _helpers(kernels: Iterable[tuple[str, str]]) -> list[Path]:
    """The runtime headers that these kernels, each with its core, include in addition to those in every bundle. A
    header comes after the headers that it includes. Headers of words are not listed; they are part of the kernel.
    """
    found: dict[Path, None] = {}

    def include(text: str, core: str) -> None:
        words = {included(line): words_of(line, core) for line in text.splitlines()}
        for name in sorted(name for name, own in words.items() if own is None and name not in EVERYWHERE):
            if (header := resources.kernel_header(name, core)) not in found:
                include(header.read_text("ascii"), core)
                found[header] = None
        for own in filter(None, words.values()):
            include(own, core)

    for text, core in kernels:
        include(text, core)
    return list(found)


INTRINSICS = ("#include <arm_mve.h>", "#include <cpuid.h>", "#include <immintrin.h>")


def _inlined(text: str, core: str = "") -> str:
    """The text of a runtime file as part of one large file: without include guards and without #include lines, except
    those of intrinsics. Headers of words replace their #include lines.
    """
    lines: list[str] = []
    for line in text.splitlines():
        words = words_of(line, core)
        if words is not None:
            lines += ["", *_inlined(words.partition("*/\n")[2], core).splitlines()]  # without the header's comment
        elif not line.startswith("#include") or line in INTRINSICS:
            lines.append(line)
    return _without_blank_lines(_without_guard(lines))


def _without_guard(lines: list[str]) -> list[str]:
    for i, line in enumerate(lines):
        name = line.removeprefix("#ifndef ")
        if line.startswith("#ifndef ") and name.endswith("_H") and lines[i + 1] == f"#define {name}":
            last = len(lines) - 1 - lines[::-1].index("#endif")
            return [*lines[:i], *lines[i + 2 : last]]
    return lines


def _without_blank_lines(lines: Iterable[str]) -> str:
    """The text with at most one empty line in a row, and none at the end."""
    text = "\n".join(lines).rstrip()
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text + "\n"
