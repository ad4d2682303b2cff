"""Fills in the templates of a bundle. In: the name of a template and what it loops over. Out: the text of a file."""

from __future__ import annotations

import pickle  # noqa: TID251  only for its error: jinja2 reads what it wrote itself
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from glowembed import resources


def render(template: str, context: Mapping[str, Any]) -> str:
    """The text of a template in glowembed/emit/templates. Raises an error for a name that the context lacks."""
    return _environment().get_template(template).render(context)


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates in the user's cache. A file that is damaged or cannot be written only costs time."""

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except (OSError, EOFError, ValueError, AttributeError, ImportError, IndexError, pickle.UnpicklingError):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


@cache
def _environment() -> jinja2.Environment:
    """The template environment, which is shared by all bundles because it keeps the compiled templates."""
    folder = resources.user_cache("templates")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("glowembed.emit", "templates"),
        bytecode_cache=_Compiled(str(folder)) if folder else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  C text, made safe by cnames
    )
