"""No name in a model can break the C text."""

import re

import pytest

from glowembed.graph.cnames import KEYWORDS, comment, distinct, identifier

HOSTILE = [
    "",
    "int",
    "9lives",
    'a"b',
    "*/ system(",
    "a\nb",
    "ä",
    "日本",
    "a__b",
    "_x",
    "A" * 300,
    "a/b:0",
    "??/",
    "main",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_identifier_is_legal_c(text: str) -> None:
    name = identifier(text)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name)
    assert name not in KEYWORDS
    assert "__" not in name


def test_equal_names_become_distinct_in_order() -> None:
    assert distinct(["a/b", "a_b", "a b", "a_b_2"]) == ["a_b", "a_b_2", "a_b_3", "a_b_2_2"]
    names = distinct(HOSTILE * 2)
    assert len(set(names)) == len(names)


def test_names_differ_from_what_is_made_of_others() -> None:
    made = distinct(["y", "y_scale", "z_scale", "z"], upper=True, suffixes=("SCALE", "SIZE"))
    assert made == ["Y", "Y_SCALE_2", "Z_SCALE", "Z_2"]


@pytest.mark.parametrize("text", [*HOSTILE, "*\\\n/", "/* */", "ends with \\"])
def test_comment_cannot_be_left(text: str) -> None:
    safe = comment(text)
    assert all(" " <= c <= "~" for c in safe)
    assert "*/" not in safe and "/*" not in safe and "\\" not in safe and "??" not in safe
