"""Options as fields of a dataclass: the field has the name, type and default, its Option the rest.

    @dataclass(frozen=True)
    class CompileOptions:
        float_io: bool = entry(False, Option("Float inputs and outputs instead of int8.", Flag()))

Such an entry is all that an option needs: the command line with its help (cli.takes), the record in the manifest,
precision.yaml and docs/options.md follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, Literal, TypeVar, cast

from glowembed.options.words import PLAIN, Flag, Words
from glowembed.records import dataclass

Recorded = bool | Literal["given"]
T = TypeVar("T")
METADATA = "options"


@dataclass(frozen=True)
class Setting:
    """That precision.yaml may set an option for a node. name: in the file, if it is another. note: the comment in the
    template, by default the possible values. commented: whether the template gives the setting as a comment only.
    of_weights: whether only nodes with weights can have it.
    """

    name: str = ""
    note: str | None = None
    commented: bool = False
    of_weights: bool = False


@dataclass(frozen=True)
class Option:
    """An option as users see it.

    part: the field within the field's value, where that holds several options. name: in the manifest and in Python, by
    default the name of the field. flag: by default it follows from the name. noun: the option in messages about a word
    that it does not know. recorded: whether the manifest has it, or only where it was given. after: the option that `--help` shows before this one, if that is not the previous entry.
    field and default are those of the dataclass.
    """

    help: str = ""
    words: Words = PLAIN
    panel: str | None = None
    setting: Setting | None = None
    recorded: Recorded = True
    part: str = ""
    name: str = ""
    flag: str = ""
    noun: str = ""
    after: str = ""
    field: str = ""
    default: Any = None

    def is_recorded(self, options: Any) -> bool:
        """Whether the manifest has this option."""
        return self.of(options) != self.default if self.recorded == "given" else self.recorded

    def of(self, options: Any) -> Any:
        """The value of this option among others."""
        value = getattr(options, self.field)
        return getattr(value, self.part) if self.part else value


def listed(*options: Option) -> Mapping[str, tuple[Option, ...]]:
    """The metadata of a field that holds these options."""
    return {METADATA: options}


def entry(default: T, *options: Option) -> T:
    """A field with a default and its option, or with several where each is a part of its value."""
    made: Any
    if isinstance(default, dict):
        made = field(default_factory=default.copy, metadata=listed(*options))
    else:
        made = field(default=default, metadata=listed(*options))
    return cast(T, made)


def table(kind: type[Any]) -> Mapping[str, Option]:
    """The options of a dataclass by name, in the order of `--help`. All fields must have defaults."""
    usual, found = kind(), dict[str, Option]()
    for base in kind.__mro__[:-1]:
        for own in (f for f in fields(base) if f.name in base.__annotations__):
            for option in own.metadata.get(METADATA, ()):
                bound = _bound(option, own.name)
                found[bound.name] = replace(bound, default=bound.of(usual))
    return {name: found[name] for name in arranged((o.name, o.after) for o in found.values())}


def _bound(option: Option, of: str) -> Option:
    name = option.name or option.part or of
    flag, noun = option.flag or f"--{name.replace('_', '-')}", option.noun or name.replace("_", " ")
    setting = option.setting and replace(option.setting, name=option.setting.name or name)
    return replace(option, field=of, name=name, flag=flag, noun=noun, setting=setting)


def arranged(names: Iterable[tuple[str, str]]) -> list[str]:
    """Names in the given order, except that one with a second name follows that one, and brings those after it along."""
    order: list[str] = []
    place = 0
    for name, after in names:
        place = order.index(after) + 1 if after in order else place
        order.insert(place, name)
        place += 1
    return order


def settings(options: Mapping[str, Option], order: Sequence[str]) -> dict[str, Option]:
    """The options that precision.yaml may set, by their names there: those in `order`, then the others."""
    return in_order({o.setting.name: o for o in options.values() if o.setting is not None}, order)


def in_order(found: Mapping[str, T], order: Sequence[str]) -> dict[str, T]:
    """The entries with a name in `order`, in that order, and then the others."""
    return {name: found[name] for name in sorted(found, key=[*order, *(n for n in found if n not in order)].index)}


def on_command_line(options: Mapping[str, Option], recorded: Mapping[str, Any]) -> str:
    """The options that a manifest records, as `compile` takes them; without those that have their defaults."""
    found = []
    for name, value in recorded.items():
        option = options.get(name)
        if option is None or value is None or value == option.words.recorded(option.default):
            continue
        written = option.words.written(value) if isinstance(option.words, Flag) else value
        found += [option.flag if one is True else f"{option.flag} {one}" for one in _each(written)]
    return " ".join(found)


def _each(written: Any) -> list[Any]:
    """The values of an option that may be given several times: NAME=VALUE for each entry of a mapping."""
    if isinstance(written, Mapping):
        return [f"{key}={','.join(map(str, one)) if isinstance(one, list) else one}" for key, one in written.items()]
    return written if isinstance(written, list) else [written]
