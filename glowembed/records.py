"""Dataclasses that are quick to define. In and out: a class.

`dataclasses.dataclass` writes and compiles up to seven methods for each class: 0.3 seconds for those of all operators and kernels.
Here only `__init__` is compiled, when the first object is made, and all classes share the text of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind: type | None = None, /, **words: bool) -> Any:
        """`dataclasses.dataclass` with `frozen`, `eq` and `kw_only`, for fields that `__init__` takes or that have no default."""
        return (lambda kind: _made(kind, **words)) if kind is None else _made(kind, **words)


def _made(kind: Any, *, frozen: bool = False, eq: bool = True, kw_only: bool = False) -> Any:
    own = dict(vars(kind))
    fields = _fields(kind, frozen, kw_only)
    methods: dict[str, Any] = {"__repr__": _repr_of([f.name for f in fields if f.repr])}
    if eq:
        methods["__eq__"] = _eq_of(_key([f.name for f in fields if f.compare]))
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__hash__"] = _hash_of(_key(hashed)) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}

    def first(record: Any, *given: Any, **named: Any) -> None:
        kind.__init__ = _init(kind, fields, frozen)
        kind.__init__(record, *given, **named)

    for name, method in {**methods, "__init__": first}.items():
        if name not in own or (name == "__hash__" and own[name] is None and "__eq__" in own):
            setattr(kind, name, method)
    return kind


def _fields(kind: Any, frozen: bool, kw_only: bool) -> Sequence[dataclasses.Field[Any]]:
    """The fields of a class, which `dataclasses` finds. As it compiles methods for every frozen class, and for those that inherit from
    one, it does not learn before the end which classes are frozen.
    """
    bases = [vars(base)["__dataclass_params__"] for base in kind.__mro__[1:] if "__dataclass_params__" in vars(base)]
    before = [base.frozen for base in bases]
    kind.__doc__ = kind.__doc__ or kind.__name__  # instead of the signature, which takes a while to find
    for base in bases:
        base.frozen = False
    dataclasses.dataclass(kind, init=False, repr=False, eq=False, kw_only=kw_only)
    for base, was in zip([*bases, kind.__dataclass_params__], [*before, frozen], strict=True):
        base.frozen = was
    return dataclasses.fields(kind)


def _init(kind: Any, fields: Sequence[dataclasses.Field[Any]], frozen: bool) -> Callable[..., None]:
    """The method `__init__`, which sets all fields."""
    known: dict[str, Any] = {"_put": object.__setattr__, "_absent": dataclasses.MISSING}
    usual, named, lines = list[str](), list[str](), list[str]()
    for f in fields:
        word, value = f.name, f.name
        if f.default is not dataclasses.MISSING:
            known[f"_of_{f.name}"], word = f.default, f"{f.name}=_of_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            known[f"_of_{f.name}"], word = f.default_factory, f"{f.name}=_absent"
            value = f"_of_{f.name}() if {f.name} is _absent else {f.name}"
        if f.init:
            (named if f.kw_only else usual).append(word)
            lines.append(f" _put(self, {f.name!r}, {value})" if frozen else f" self.{f.name} = {value}")
    lines += [" self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    taken = ", ".join(["self", *usual, *(["*", *named] if named else [])])
    exec(f"def __init__({taken}):\n" + ("\n".join(lines) or " pass"), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__, init.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    return init


def _key(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What compares as these attributes do."""
    if not names:
        return lambda record: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _eq_of(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def equal(record: Any, other: object) -> bool:
        return key(record) == key(other) if other.__class__ is record.__class__ else NotImplemented

    return equal


def _hash_of(key: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def hashed(record: Any) -> int:
        return hash(key(record))

    return hashed


def _repr_of(names: Sequence[str]) -> Callable[[Any], str]:
    def written(record: Any) -> str:
        return f"{record.__class__.__qualname__}({', '.join(f'{name}={getattr(record, name)!r}' for name in names)})"

    return recursive_repr("...")(written)


def _refuse(record: Any, name: str, value: Any = None) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
