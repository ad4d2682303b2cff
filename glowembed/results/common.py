"""Parts that several results have."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

Schema = Annotated[Literal[1], "The version of this form."]
Count = Annotated[int, "Not negative."]
Clock = Annotated[int | None, "The clock that gives the milliseconds, in hertz; null if there is none."]
Milliseconds = Annotated[
    float | None, "The time of an inference at this clock, by its cycles; null if they are not known."
]
Microjoules = Annotated[
    float | None, "An estimate of the energy of an inference, by its cycles and board.toml; null if that does not say."
]
Sha256 = Annotated[str, "64 hexadecimal digits."]


class Note(TypedDict):
    """Something that is probably not intended (docs/notes.md)."""

    level: Literal["note", "warning"]
    code: Annotated[str, "A word that names the kind of note."]
    text: str
