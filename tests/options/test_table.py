"""The table of options: every entry reads what it writes, and an added entry is all that a new option needs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pytest

from glowembed import cli
from glowembed.errors import UsageError
from glowembed.graph.plan import Places, PlanOptions
from glowembed.options import table as options
from glowembed.options.option import Option, Setting, arranged, entry, in_order, on_command_line, settings, table
from glowembed.options.table import NODE_SETTINGS, OPTIONS, CompileOptions, Settings
from glowembed.options.words import Choice, Flag, Number, OnOff

OTHER: Mapping[str, tuple[Any, Any]] = {
    "renames": (["a=b"], {"a": "b"}),
    "shapes": (["x=1,3"], {"x": (1, 3)}),
    "flash": ("2K", 2048),
    "weights": ("file:w.bin", options.weights_place("file:w.bin")),
    "per_channel": (True, False),
    "bias_correction": ("off", False),
    "percentile": (99.0, 99.0),
    "float64_as_float32": (True, True),
}
"""Words on the command line, and the value of the field."""


def test_every_field_is_an_option() -> None:
    assert {o.field for o in OPTIONS.values()} == {f.name for f in fields(CompileOptions)}
    assert {o.field for o in NODE_SETTINGS.values()} == {f.name for f in fields(Settings)} - {"rules"}


def test_the_defaults_of_the_command_line_are_those_of_the_options() -> None:
    given = {name: option.words.written(option.default) for name, option in OPTIONS.items()}
    assert CompileOptions.from_words(given) == CompileOptions()


def test_flags_are_unique_and_orders_name_options_that_exist() -> None:
    assert len({o.flag for o in OPTIONS.values()}) == len(OPTIONS)
    assert set(options.ORDER_OF_MANIFEST) <= set(OPTIONS)
    assert set(options.ORDER_OF_SETTINGS) <= set(NODE_SETTINGS)


@pytest.mark.parametrize("name", sorted(OTHER))
def test_words_become_values(name: str) -> None:
    words, value = OTHER[name]
    assert getattr(CompileOptions.from_words({name: words}), OPTIONS[name].field) == value


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({}, ""),
        ({"optimize": "speed", "ram": "4K", "winograd": True}, "--optimize speed --ram 4096 --winograd"),
        ({"per_channel": True}, "--per-tensor"),
        ({"bias_correction": "off"}, "--bias-correction off"),
        ({"rams": ["dtcm=64K", "ram2=1K"]}, "--memory dtcm=65536 --memory ram2=1024"),
        ({"shapes": ["x=1,3", "y=2"]}, "--shape x=1,3 --shape y=2"),
        ({"random": 4}, "--random 4"),
    ],
)
def test_what_a_manifest_records_is_shown_as_it_was_given(words: dict[str, Any], line: str) -> None:
    recorded = json.loads(json.dumps(CompileOptions.from_words(words).recorded()))
    assert on_command_line(OPTIONS, recorded) == line


def test_parts_of_one_field_are_kept_together() -> None:
    given = {"ram": "1K", "optimize": "size", "rams": ["a=1"], "io": "caller", "input": "rows"}
    made = CompileOptions.from_words(given)
    assert (made.plan.ram, made.plan.optimize, made.plan.mode) == (1024, "size", PlanOptions().mode)
    assert made.places == Places("caller", "rows")
    assert {"ram": 1024, "optimize": "size", "rams": {"a": 1}, "io": "caller"}.items() <= made.recorded().items()


@pytest.mark.parametrize("name", [name for name, o in OPTIONS.items() if isinstance(o.words, Choice)])
def test_a_choice_takes_its_words_and_names_itself_where_it_refuses_another(name: str) -> None:
    option = OPTIONS[name]
    assert isinstance(option.words, Choice)
    for word in option.words.choices:
        made = CompileOptions.from_words({name: word})
        assert option.of(made) == word
        assert made.recorded().get(name, option.default) == word
    with pytest.raises(UsageError, match=f"unknown {option.noun} 'other'.*Known: "):
        CompileOptions.from_words({name: "other"})


@pytest.mark.parametrize(
    ("words", "good", "bad"),
    [
        (Choice(choices=("a", "b")), "a", ["c", 1, True, ["a"], None]),
        (Flag(), True, ["on", 1, None]),
        (OnOff(), False, ["off", 0, None]),
        (Number("P", float, "above 0", lambda x: x > 0), 1, [0, "1", True, None, float("nan")]),
        (Number("N", int, "above 0", lambda x: x > 0), 1, [0, 1.5, True]),
    ],
    ids=lambda case: type(case).__name__,
)
def test_values_of_precision_yaml(words: Any, good: Any, bad: list[Any]) -> None:
    assert words.setting(good) == good
    for value in bad:
        with pytest.raises(UsageError):
            words.setting(value)


def test_an_order_by_neighbours() -> None:
    assert arranged([("a", ""), ("b", ""), ("c", "a"), ("d", ""), ("e", "absent")]) == ["a", "c", "d", "e", "b"]
    assert list(in_order({"a": 1, "b": 2, "c": 3}, ("c", "absent"))) == ["c", "a", "b"]


@dataclass(frozen=True, kw_only=True)
class More(Settings, CompileOptions):
    """An option more, as the table would have it."""

    frobnicate: bool = entry(False, Option("Frobnicate.", OnOff(), "Quantization", Setting()))


def test_an_entry_is_all_that_an_option_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = table(More)
    monkeypatch.setattr(options, "OPTIONS", known)
    monkeypatch.setattr(options, "NODE_SETTINGS", settings(known, options.ORDER_OF_SETTINGS))
    monkeypatch.setattr(cli, "CompileOptions", More)

    @cli.takes()
    def command(**given: Any) -> None: ...

    assert inspect.signature(command).parameters["frobnicate"].default == "off"
    assert More(frobnicate=True).recorded()["frobnicate"] is True
    node = More().applied({"frobnicate": True}, "rule 1")
    assert node.json()["frobnicate"] is True
    assert node.rules == {"frobnicate": "rule 1"}
