"""The exceptions of glowembed. In: a message for a person. Out: an exception that knows the exit code.

    GlowembedError            1   never raised itself; catch it to catch everything below
    ├── ValidationDiffers     1   the bits differ from the reference, or the accuracy is too low
    ├── UsageError            2   bad usage or bad input: an option, a file, a name, a shape, a setting
    │   ├── DoesNotFit        2   the program is larger than a memory of the board: by how many bytes, of what
    │   └── NoRoom            2   no plan is as small as the limit on RAM: how many bytes the smallest needs
    ├── UnsupportedModelError 3   the model is valid, but has parts that cannot be compiled; all of them are listed
    ├── ToolError             4   a tool is missing (the message names the Debian package) or it failed
    ├── LimitExceeded         5   it ran, and a figure is beyond a limit that the user has set
    └── Interrupted         130   Ctrl-C (SIGTERM: 143, SIGHUP: 129) in work of which a part is kept: the message says how to continue

A message names the thing, what was found, what was allowed, and what to do. Programming errors are not among them: they
stay ordinary Python exceptions, with their traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class GlowembedError(Exception):
    """An error that can be explained to the user in a sentence."""

    exit_code: int = 1


class ValidationDiffers(GlowembedError):
    """The outputs of the program differ from those of the reference."""

    exit_code = 1


class UsageError(GlowembedError):
    """The input is wrong: a name, an option, a file or data; or the network does not fit into the board or the limit on RAM."""

    exit_code = 2


class DoesNotFit(UsageError):
    """A board is too small. This is a usage error, because another board or a smaller model helps.

    `overflows` maps the name of each memory of the board to the bytes by which it is exceeded.
    """

    def __init__(self, message: str, overflows: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.overflows: dict[str, int] = dict(overflows or {})


class NoRoom(UsageError):
    """No plan is as small as the user's limit on RAM. `smallest` is the smallest that was found, with its graph."""

    def __init__(self, message: str, smallest: Any) -> None:
        super().__init__(message)
        self.smallest = smallest


class NoReuse(UsageError):
    """A network keeps nothing from hop to hop along the axis of a stream."""


class UnsupportedModelError(GlowembedError):
    """The model needs something that glowembed does not support; the message lists every such node."""

    exit_code = 3


class ToolError(GlowembedError):
    """An external tool is missing or failed, or a device does not answer as it should.

    `package` is the Debian package that holds a missing tool.
    """

    exit_code = 4

    def __init__(self, message: str, package: str | None = None) -> None:
        super().__init__(message)
        self.package = package


class LimitExceeded(GlowembedError):
    """A figure exceeds a limit that the user has set; the message says which, and what helps."""

    exit_code = 5


class Interrupted(GlowembedError):
    """The user interrupted the work (143 for SIGTERM, 129 for SIGHUP). The message says what can be continued, and how."""

    exit_code = 130


MOST_LISTED = 40
"""The longest list of names that a message has in full."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not in a list. It names the nearest match and the list, or the nearest ones of a long list."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [
        one for one in names if len(name) > 1 and one.lower().endswith(name.lower())
    ]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) > MOST_LISTED:
        nearest = difflib.get_close_matches(name, names, n=5, cutoff=0)
        return UsageError(f"unknown {kind} {name!r}.{hint} The nearest of {len(names)}: {', '.join(nearest)}")
    return UsageError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names) or 'none'}")
