"""Parts that several results have."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

Schema = Annotated[Literal[1], "The version of this form."]
Count = Annotated[int, "Not negative."]
Sha256 = Annotated[str, "64 hexadecimal digits."]


class Note(TypedDict):
    """Something that is probably not intended (docs/notes.md)."""

    level: Literal["note", "warning"]
    code: Annotated[str, "A word that names the kind of note."]
    text: str
