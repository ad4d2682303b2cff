"""Prints a program of loop nests as a C function. In: a Program and a symbol. Out: C99 text with its #include lines.

The function has the signature of a kernel: pointers to ge_rows for the inputs and the output, each of which is one row.
Only local variables are computed in advance, so a load behind a condition is never executed when the condition is
false.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

from glowembed.nest import dtypes, functions
from glowembed.nest.bounds import unproved
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import COMPARISONS, Expr
from glowembed.nest.program import Program, Statement, Tensor, expressions, loaded, parts, statements, to_data

INDENT = "    "
_PROMOTED = ("int32", "int64", "uint32", "uint64", INDEX, BOOL)
"""The types that C's integer promotions do not change."""


def symbol(program: Program) -> str:
    """The name of the C function; programs with the same text share it."""
    text = json.dumps(to_data(program), sort_keys=True)
    return f"ge_nest_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def text(program: Program, name: str) -> str:
    """The C text: the includes, the functions of numbers, and the function itself."""
    used = sorted({(one.value, one.kind) for one in _calls(program)})
    wide = sorted({n for n, kind in used if not _is_narrow(n, kind)})
    headers = ['#include "ge.h"', '#include "ge_float.h"', '#include "ge_nest.h"']
    stems = (_guarded(n) for n in wide)
    return "\n".join([*headers, "", *stems, _function(program, name)]) + "\n"


def scratch(program: Program) -> int:
    """The bytes of the temporaries, each rounded up to a multiple of 8."""
    return sum(_bytes(t) for t in program.temporaries)


def _bytes(t: Tensor) -> int:
    return -(-max(t.size, 1) * dtypes.numpy_type(t.dtype).itemsize // 8) * 8


def _calls(program: Program) -> Iterator[Expr]:
    roots = (root for s in statements(program.body) for root in expressions(s))
    return (one for root in roots for one in parts(root) if one.op == "call")


def _is_narrow(name: str, kind: str) -> bool:
    return kind == "float32" and name in functions.IN_FLOAT32


@cache
def _guarded(name: str) -> str:
    """A function of float64 that a bundle defines once, however many programs use it."""
    args, root = functions.definition(name)
    lines: list[str] = []
    known = {id(arg): arg.value for arg in args}
    for one in parts(root):
        if one.op == "constant":
            known[id(one)] = literal(one.value, one.kind)
        elif one.op != "variable":
            local = f"t{len(lines)}"
            operands = [known[id(arg)] for arg in one.args]
            lines.append(f"{INDENT}const {dtypes.computed_ctype(one.kind)} {local} = {_operation(one, operands)};")
            known[id(one)] = local
    signature = ", ".join(f"double {arg.value}" for arg in args)
    guard = f"GE_NEST_{name.upper()}"
    body = "\n".join(lines)
    return (
        f"#ifndef {guard}\n#define {guard}\nstatic inline double ge_{name}_float64({signature}) {{\n{body}\n"
        f"{INDENT}return {known[id(root)]};\n}}\n#endif\n"
    )


def _function(program: Program, name: str) -> str:
    rows = ", ".join(f"const ge_rows *in{i}" for i in range(len(program.inputs)))
    read = loaded(program.body)
    lines = [
        f"static void {name}(const ge_nest_params *p, {rows}{', ' if rows else ''}const ge_rows *out, int32_t first_row, int32_t last_row,",
        f"{INDENT}void *scratch) {{",
    ]
    used = {s.args[0].name for s in statements(program.body) if s.kind == "store"} | set(read)
    for i, t in enumerate(program.inputs):
        if t.name in used:
            ctype = dtypes.stored_ctype(t.dtype)
            lines.append(f"{INDENT}const {ctype} *{t.name} = (const {ctype} *)ge_row(in{i}, 0);")
        else:
            lines.append(f"{INDENT}(void)in{i};")
    ctype = dtypes.stored_ctype(program.output.dtype)
    lines.append(f"{INDENT}{ctype} *{program.output.name} = ({ctype} *)ge_row(out, 0);")
    offset = 0
    for t in program.temporaries:
        if t.name in used:
            ctype = dtypes.stored_ctype(t.dtype)
            lines.append(f"{INDENT}{ctype} *{t.name} = ({ctype} *)(void *)((uint8_t *)scratch + {offset});")
        offset += _bytes(t)
    lines += [f"{INDENT}(void)p;", f"{INDENT}(void)scratch;", f"{INDENT}(void)first_row;", f"{INDENT}(void)last_row;"]
    if program.output.name not in used:
        lines.append(f"{INDENT}(void){program.output.name};")
    return "\n".join([*lines, *_block(program.body, 1, unproved(program.body)), "}"])


def _block(body: Sequence[Statement], depth: int, loose: Collection[int]) -> Iterator[str]:
    """The statements as lines. loose: the loads and stores that are not proved to lie inside their tensors."""
    space = INDENT * depth
    for s in body:
        if s.kind in ("each", "loop"):
            name, count, down = s.args
            end = expression(count, loose)
            head = (
                f"int32_t {name} = {end} - 1; {name} >= 0; {name}--"
                if down
                else f"int32_t {name} = 0; {name} < {end}; {name}++"
            )
            yield f"{space}for ({head}) {{"
            yield from _block(s.body, depth + 1, loose)
            yield f"{space}}}"
        elif s.kind == "if":
            yield f"{space}if ({_bare(expression(s.args[0], loose))}) {{"
            yield from _block(s.body, depth + 1, loose)
            yield f"{space}}}"
        elif s.kind == "declare":
            yield f"{space}{dtypes.computed_ctype(s.args[1].kind)} {s.args[0]} = {_bare(expression(s.args[1], loose))};"
        elif s.kind == "set":
            yield f"{space}{s.args[0]} = {_bare(expression(s.args[1], loose))};"
        else:
            tensor, position, value = s.args
            line = _stored(tensor, position, value, loose)
            if id(s) in loose:
                line = f"if (ge_inside({_bare(expression(position, loose))}, {tensor.size})) {{ {line} }}"
            yield f"{space}{line}"


def _stored(tensor: Tensor, position: Expr, value: Expr, loose: Collection[int]) -> str:
    found, ctype = expression(value, loose), dtypes.stored_ctype(tensor.dtype)
    if tensor.dtype in dtypes.SMALL_FLOATS:
        found = f"ge_to_{tensor.dtype}({_bare(found)})"
    elif tensor.dtype in dtypes.NIBBLES:
        kind, bits = dtypes.NIBBLES[tensor.dtype]
        found = f"ge_low_bits_{kind}({found}, {bits})"
    elif tensor.dtype == BOOL:
        found = f"(uint8_t)({_bare(found)})"
    elif value.kind not in _PROMOTED and not dtypes.is_float(value.kind):
        found = f"({ctype}){found}"
    return f"{tensor.name}[{_bare(expression(position, loose))}] = {_bare(found) if found.startswith('((') else found};"


def _bare(found: str) -> str:
    """The text without parentheses that enclose the whole of it."""
    if not (found.startswith("(") and found.endswith(")")):
        return found
    level = 0
    for i, c in enumerate(found):
        level += (c == "(") - (c == ")")
        if level == 0 and i < len(found) - 1:
            return found
    return found[1:-1]


def expression(root: Expr, loose: Collection[int] = ()) -> str:
    """An expression as C. loose: the loads whose position is clamped to their tensor."""
    known: dict[int, str] = {}
    for one in parts(root):
        operands = [known[id(arg)] for arg in (one.args[:1] if one.op == "load" else one.args)]
        if id(one) in loose:
            operands = [f"ge_nearest({_bare(operands[0])}, {max(one.value.size, 1)})"]
        known[id(one)] = _operation(one, operands)
    return known[id(root)]


def literal(value: Any, kind: str) -> str:
    """A constant as a C literal; floats are exact, in hexadecimal."""
    if dtypes.is_float(kind):
        suffix = "f" if kind == "float32" else ""
        if math.isnan(value):
            return f"ge_nan_{kind}()"
        if math.isinf(value):
            return f"({'-' if value < 0 else ''}ge_inf_{kind}())"
        number = f"{float(value).hex()}{suffix}"
        return f"({number})" if math.copysign(1, value) < 0 else number
    if value == -(2**63):
        return "INT64_MIN"
    if value == -(2**31):
        return "INT32_MIN"
    suffix = {"int64": "LL", "uint64": "ULL", "uint32": "U"}.get(kind, "")
    return f"({value}{suffix})" if value < 0 else f"{int(value)}{suffix}"


def _operation(one: Expr, a: Sequence[str]) -> str:
    op, kind = one.op, one.kind
    if op == "variable":
        return str(one.value)
    if op == "constant":
        return literal(one.value, kind)
    if op == "load":
        found = f"{one.value.name}[{_bare(a[0])}]"
        return f"ge_from_{one.value.dtype}({found})" if one.value.dtype in dtypes.SMALL_FLOATS else found
    if op == "call":
        return _call(one, a)
    source = one.args[0].kind
    if op == "cast":
        return _cast(source, kind, a[0])
    if op == "?":
        return f"({a[0]} ? {a[1]} : {a[2]})"
    if op in ("min", "max"):
        return f"ge_{op}_{kind}({_bare(a[0])}, {_bare(a[1])})"
    if op in COMPARISONS:
        return f"({a[0]} {op} {a[1]})"
    if op in ("isnan", "isinf", "bits"):
        return f"ge_{op}_{source}({_bare(a[0])})"
    if op in ("abs", "sqrt", "floor", "ceil", "trunc", "rint", "length"):
        return f"ge_{op}_{kind}({_bare(a[0])})"
    return _arithmetic(one, a)


def _call(one: Expr, a: Sequence[str]) -> str:
    if _is_narrow(one.value, one.kind):
        return f"ge_{one.value}_f32({_bare(a[0])})"
    if one.kind == "float32":
        return f"((float)ge_{one.value}_float64({', '.join(f'(double){x}' for x in a)}))"
    return f"ge_{one.value}_float64({', '.join(_bare(x) for x in a)})"


def _cast(source: str, kind: str, a: str) -> str:
    if kind == BOOL:
        return f"({a} != 0)"
    if dtypes.is_float(source) and not dtypes.is_float(kind):
        return f"ge_{kind}_of_{source}({_bare(a)})"
    return f"(({dtypes.computed_ctype(kind)}){a})"


def _arithmetic(one: Expr, a: Sequence[str]) -> str:
    op, kind = one.op, one.kind
    ctype = dtypes.computed_ctype(kind)
    if op == "not":
        return f"(!{a[0]})" if kind == BOOL else f"(({ctype})~{a[0]})"
    if op == "neg":
        if dtypes.is_float(kind):
            return f"(-{a[0]})"
        return f"(({ctype})(0u - ({_unsigned(kind)}){a[0]}))"
    if op in "&|^":
        if kind == BOOL and op != "^":
            return f"({a[0]} {op}{op} {a[1]})"
        both = f"({a[0]} {op} {a[1]})"
        return both if kind in _PROMOTED else f"(({ctype}){both})"
    if op in ("+", "-", "*"):
        if kind == BOOL:
            return f"({a[0]} {'||' if op == '+' else '&&'} {a[1]})"
        if dtypes.is_float(kind) or kind in ("uint32", "uint64", INDEX):
            return f"({a[0]} {op} {a[1]})"
        unsigned = _unsigned(kind)
        return f"(({ctype})(({unsigned}){a[0]} {op} ({unsigned}){a[1]}))"
    if op == "/" and dtypes.is_float(kind):
        return f"({a[0]} / {a[1]})"
    if op in ("//", "%") and kind == INDEX and _never_negative(one.args[0]) and _positive(one.args[1]):
        return f"({a[0]} {op[0]} {a[1]})"
    if op in ("<<", ">>") and _is_width(one.args[1], kind):
        return f"({a[0]} >> {a[1]})" if op == ">>" else f"(({ctype})(({_unsigned(kind)}){a[0]} << {a[1]}))"
    names = {"/": "div", "//": "floordiv", "%": "mod", "fmod": "fmod", "<<": "shl", ">>": "shr"}
    return f"ge_{names[op]}_{kind}({_bare(a[0])}, {_bare(a[1])})"


def _unsigned(kind: str) -> str:
    """The unsigned C type in which integers of this type are added and multiplied, so that they wrap around."""
    return "uint64_t" if dtypes.bits(kind) == 64 else "uint32_t"


def _positive(one: Expr) -> bool:
    return one.op == "constant" and one.value > 0


def _is_width(one: Expr, kind: str) -> bool:
    """Whether the shift count of an operand of this type is a constant below its width, for a type that C does not
    promote.
    """
    return kind in _PROMOTED and one.op == "constant" and 0 <= one.value < dtypes.bits(kind)


def _never_negative(one: Expr) -> bool:
    """Whether a position consists only of loop variables and constants, without a subtraction."""
    if one.op == "variable":
        return str(one.value)[0] in "ir"
    if one.op == "constant":
        return bool(one.value >= 0)
    return one.kind == INDEX and one.op in ("+", "*", "//", "%") and all(_never_negative(arg) for arg in one.args)
