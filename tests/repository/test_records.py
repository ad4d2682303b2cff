"""Our dataclasses behave as those of the standard library."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from glowembed import records


def point(make: Any) -> tuple[Any, Any]:
    """A frozen class and one that inherits from it, with every kind of default."""

    @make(frozen=True)
    class Point:
        x: int
        names: list[str] = dataclasses.field(default_factory=list, compare=False)

    @make(frozen=True, kw_only=True)
    class Named(Point):
        name: str = "a"

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    return Point, Named


@pytest.mark.parametrize("which", [0, 1])
def test_as_in_the_standard_library(which: int) -> None:
    theirs, ours = point(dataclasses.dataclass)[which], point(records.dataclass)[which]
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
    for kind in (theirs, ours):
        one, same, other = kind(1, ["b"]), kind(x=1), kind(2)
        assert one == same != other and hash(one) == hash(same) and one.names == ["b"] and same.names == []
        assert dataclasses.replace(one, x=2) == other and dataclasses.asdict(other) == vars(other)
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.x = 3
    assert repr(theirs(1)) == repr(ours(1))
    if which:
        with pytest.raises(ValueError, match="negative"):
            ours(-1)
    else:
        assert ours.__init__.__qualname__.endswith("Point.__init__")
