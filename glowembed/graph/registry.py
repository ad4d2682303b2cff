"""Finds the ops, kernels and lowerings: it loads every module in glowembed/ops and glowembed/kernels and reads their
lists.

In: OPS, KERNEL_OPS, LOWERINGS and KERNELS of the modules, and the user's own operators (`use_ops`). Out: mappings by name.
"""

from __future__ import annotations

import copy
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from glowembed.errors import UsageError, unknown_name
from glowembed.graph import own
from glowembed.graph.ir import Node
from glowembed.graph.isa import Isa, Level
from glowembed.graph.op import Kernel, KernelOp, LowerContext, Lowering, Op, in_mode, of_law
from glowembed.graph.target import Target

T = TypeVar("T")


@cache
def _modules(name: str) -> tuple[Any, ...]:
    """All modules below a package of glowembed, sorted by name."""
    package = importlib.import_module(f"glowembed.{name}")
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return tuple(importlib.import_module(module) for module in sorted(m.name for m in found))


def _op_modules() -> tuple[Any, ...]:
    """The modules of glowembed/ops, and those of the user's own operators."""
    return (*_modules("ops"), *own.modules())


def use_ops(folder: str | Path) -> None:
    """Add the operators of this folder, in this process and its child processes. Raises UsageError for a folder that
    has none, or whose files cannot be loaded.
    """
    os.environ[own.VARIABLE] = str(Path(folder).absolute())
    for known in (ops, kernel_ops, lowerings, importers, definitions, _kernels_by_symbol):
        known.cache_clear()
    kernel_ops()
    importers()


def _unique(kind: str, found: Iterable[T], name: Callable[[T], str]) -> dict[str, T]:
    """The items by name. Raises UsageError if two have the same name, because a user's operator may have the name of a
    built-in one.
    """
    result: dict[str, T] = {}
    for one in found:
        if name(one) in result:
            raise UsageError(
                f"two {kind} are named {name(one)!r}; give the one of your own folder (--ops) another name"
            )
        result[name(one)] = one
    return result


@cache
def ops() -> Mapping[str, Op]:
    """Every semantic op by name: the list OPS of each module in glowembed/ops."""
    return _unique("ops", (op for module in _op_modules() for op in getattr(module, "OPS", ())), lambda op: op.name)


@cache
def isas() -> Mapping[str, Isa]:
    """Every instruction set that packages in glowembed/kernels declare in ISAS, by its word."""
    return _unique(
        "instruction sets",
        (isa for module in _modules("kernels") for isa in getattr(module, "ISAS", ())),
        lambda isa: isa.word,
    )


@cache
def levels() -> Mapping[str, tuple[Level, ...]]:
    """The levels of every instruction set that has levels, by its word."""
    return {word: isa.levels for word, isa in isas().items() if isa.levels}


def with_levels(target: Target, words: tuple[str, ...]) -> Target:
    """The target limited to these levels and portable C. No words mean all levels."""
    known = [level.word for isa in target.isa for level in levels().get(isa, ())]
    for word in words:
        if not known:
            said = f"--levels {','.join(words)}: the kernels for {target.name} exist once"
            raise UsageError(f"{said}; leave it out, or compile for x86-64 without --isa portable")
        if word not in known:
            raise unknown_name(f"level of {target.name}", word, known)
    return replace(target, levels=words)


def levels_of(word: str, target: Target) -> dict[int, Level]:
    """The levels of an ISA word for which the target's kernels are compiled, by number, worst first."""
    chosen = target.levels
    return {i: level for i, level in enumerate(levels()[word]) if i == 0 or not chosen or level.word in chosen}


@cache
def kernel_ops() -> Mapping[str, KernelOp[Any]]:
    """Every kernel-level op by name: the list KERNEL_OPS of each module in glowembed/ops, with the kernels of all cores."""
    found = (op for module in _op_modules() for op in getattr(module, "KERNEL_OPS", ()))
    complete = _unique("kernel-level ops", map(_with_kernels, found), lambda op: op.name)
    return {name: _unpacking(op, complete) if op.unpacks else op for name, op in complete.items()}


def _unpacking(op: KernelOp[Any], known: Mapping[str, KernelOp[Any]]) -> KernelOp[Any]:
    """The op for weights of four bits, with the kernels of the op for int8 weights."""
    unpacked = importlib.import_module("glowembed.kernels.shared.unpacked").unpacked
    plain, complete = known[in_mode(op.unpacks, op.requantization)], copy.copy(op)
    complete.kernels = tuple(unpacked(kernel, plain, op) for kernel in plain.kernels)
    return complete


def _with_kernels(op: KernelOp[Any]) -> KernelOp[Any]:
    """The op with the kernels that the modules in glowembed/kernels offer in KERNELS, which maps names of ops to
    KernelsOf.

    A kernel for a twin is offered under the name of the op in the default law, and gets the twin's names. A kernel that
    is offered under the twin's own name has its own C file.
    """
    offers = [getattr(module, "KERNELS", {}) for module in _modules("kernels")]
    own = [kernel for offer in offers if op.name in offer for kernel in offer[op.name]("default")]
    if op.twin_of:
        shared = (kernel for offer in offers if op.twin_of in offer for kernel in offer[op.twin_of](op.requantization))
        own += [of_law(kernel, op.requantization) for kernel in shared]
    complete = copy.copy(op)
    complete.kernels = (*op.kernels, *own)
    return complete


@cache
def lowerings() -> Mapping[tuple[str, str], Lowering]:
    """The lowering for each (semantic op, dtype) except int8, from the LOWERINGS of each module in glowembed/ops."""
    found: dict[tuple[str, str], Lowering] = {}
    for module in _op_modules():
        found |= getattr(module, "LOWERINGS", {})
    return found


def dtypes_of(op: str) -> tuple[str, ...]:
    """The dtypes in which nodes of a semantic op can be computed."""
    if ops()[op].plain:
        return ("float32",)
    return ("int8", *(dtype for name, dtype in lowerings() if name == op))


@cache
def importers() -> Mapping[str, Op]:
    """The op that imports each ONNX operator, by operator type, or `domain:type` for an operator of another domain."""
    taken = _unique("importers", ((kind, op) for op in ops().values() for kind in op.onnx), lambda pair: pair[0])
    return {kind: op for kind, (_, op) in taken.items()}


@cache
def definitions() -> Mapping[str, Any]:
    """The definition of each ONNX operator as a loop nest, as registered by the modules of
    glowembed/ops/definitions.
    """
    _op_modules()
    found: Mapping[str, Any] = importlib.import_module("glowembed.ops.shared.definition").DEFINITIONS
    return found


def all_kernels() -> Iterator[Kernel]:
    """All kernels of all ops."""
    return (k for op in kernel_ops().values() for k in op.kernels)


def kernel(symbol: str) -> Kernel:
    """The Kernel with this symbol. Raises KeyError if there is none."""
    return _kernels_by_symbol()[symbol]


@cache
def _kernels_by_symbol() -> Mapping[str, Kernel]:
    return {k.symbol: k for k in all_kernels()}


def lower_node(node: Node, c: LowerContext) -> None:
    """Lower a semantic node for the dtype of its output."""
    lowerings().get((node.op, c.dtype(node.outputs[0])), ops()[node.op].lower)(node, c)
