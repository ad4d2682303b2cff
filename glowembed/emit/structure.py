"""The structure of a program that reads its weights from a file: a hash of everything that program and file must agree
on.

In: the C text of a bundle whose params, constants and scales are in the file. Out: 64 bits.

A file belongs to the program with which it was made. Every other program with the same text behaves in the same way,
because the text contains its shapes, its plan, its kernels, and everything that was proved about values when kernels
were chosen. Anything that depends on values and is not in the file, such as a number in generated C, gives another text
and so another structure. Comments, messages of #error, the name of the bundle and the names of layers make no difference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from glowembed.emit.csource import without_comments

_WORDS = re.compile(r"[A-Za-z_]\w*|\S")


def structure_of(texts: Iterable[str], name: str, words: Mapping[str, str]) -> int:
    """The structure of these texts of the bundle `name`. words: replace the names of layers and constants."""
    digest = hashlib.sha256()
    for text in texts:
        for line in without_comments(text).splitlines():
            if line.startswith("#error"):  # words for people, among which the bundle's name may be
                continue
            found = (_neutral(word, name, words) for word in _WORDS.findall(line))
            digest.update((" ".join(found) + "\n").encode("ascii"))
    return int.from_bytes(digest.digest()[:8], "little")


def _neutral(word: str, name: str, words: Mapping[str, str]) -> str:
    """A C word without the bundle's own names. No other C word contains `@`."""
    if word in words:
        return f"@{words[word]}"
    for prefix, mark in ((name, "@n"), (name.upper(), "@N")):
        if word == prefix or word.startswith(f"{prefix}_"):
            return mark + word.removeprefix(prefix)
    return word
