"""The part of a model that is compiled: --inputs, --outputs, --constant. In: words. Out: a Cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glowembed.errors import UsageError
from glowembed.records import dataclass

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Cut:
    """The values of the model that become its inputs and outputs if it is cut, and the inputs that always have the same
    numbers, with these. An empty tuple of names means those of the model.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: tuple[tuple[str, Numbers], ...] = ()

    def over(self, other: Cut) -> Cut:
        """This cut, completed with what only the other one says."""
        constants = tuple((dict(other.constants) | dict(self.constants)).items())
        return Cut(self.inputs or other.inputs, self.outputs or other.outputs, constants)


WHOLE = Cut()
"""The model as it is."""


def named_constants(texts: list[str] | None) -> tuple[tuple[str, Numbers], ...]:
    """The inputs given by --constant, and their numbers."""
    pairs = [_pair(text) for text in texts or []]
    if len({name for name, _ in pairs}) < len(pairs):
        raise UsageError(f"--constant {' '.join(texts or [])}: each input once")
    return tuple(pairs)


def _pair(text: str) -> tuple[str, Numbers]:
    name, _, right = text.rpartition("=")
    try:
        numbers = tuple(map(_number, right.split(",")))
    except ValueError:
        numbers = ()
    if not name or not numbers:
        raise UsageError(f"--constant {text!r}: expected NAME=16000, or one number for each element, as in NAME=1,0,0")
    return name, numbers


def _number(text: str) -> float:
    """A whole number keeps all its digits."""
    words = {"true": 1, "false": 0}
    text = text.strip().lower()
    try:
        return words[text] if text in words else int(text)
    except ValueError:
        return float(text)


def written_constants(constants: Sequence[tuple[str, Numbers]]) -> dict[str, list[float]]:
    """The form in manifests and profiles."""
    return {name: list(numbers) for name, numbers in constants}


def read_constants(entry: Mapping[str, Sequence[float]]) -> tuple[tuple[str, Numbers], ...]:
    """The constants in a manifest or profile. Raises TypeError, ValueError or AttributeError for another form."""
    return tuple((str(name), tuple(_number(str(number)) for number in numbers)) for name, numbers in entry.items())
