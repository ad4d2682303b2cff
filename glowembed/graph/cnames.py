"""Makes names and text from a model safe for C.

In: any string. Out: C identifiers that are unique in their scope, and text that cannot leave a C comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    _Bool _Complex _Imaginary alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t class compl
    concept constexpr const_cast decltype delete dynamic_cast explicit export false friend mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_assert
    static_cast template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq main
    errno NULL EOF stdin stdout stderr""".split()
)


def identifier(text: str) -> str:
    """`text` as a C identifier: ASCII letters, digits and single underscores, never reserved, at most 48 long."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]", "_", text)).strip("_")[:48].rstrip("_")
    if not name or name[0].isdigit() or name in KEYWORDS:
        name = f"v_{name}".rstrip("_")
    return name


def distinct(texts: Sequence[str], *, upper: bool = False, suffixes: Sequence[str] = ()) -> list[str]:
    """An identifier for each text, in order; identifiers that would be equal get _2, _3 ...

    suffixes: appended to the identifiers, they make further names, which must not equal any of the identifiers.
    """
    names: list[str] = []
    taken: set[str] = set()
    for text in texts:
        base = identifier(text).upper() if upper else identifier(text)
        name, count = base, 1
        while not taken.isdisjoint(made := [name, *(f"{name}_{suffix}" for suffix in suffixes)]):
            count += 1
            name = f"{base}_{count}"
        taken.update(made)
        names.append(name)
    return names


def text(content: str) -> str:
    """A C string literal with this content. Characters outside plain ASCII are escaped, byte by byte in UTF-8."""
    return '"' + "".join(_escaped(byte) for byte in content.encode("utf-8", "replace")) + '"'


def _escaped(byte: int) -> str:
    plain = 32 <= byte < 127 and chr(byte) not in '"?\\'
    return chr(byte) if plain else f"\\{byte:03o}"


def comment(text: str) -> str:
    """`text` for use inside a C comment: printable ASCII on one line, without comment marks, trigraphs and line
    splices.
    """
    ascii_text = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    safe = re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", ascii_text.replace("\\", "/"))
    return safe if len(safe) <= 160 else safe[:157] + "..."
