"""The command line. In: words. Out: calls of the pipeline, tables or JSON, and an exit code.

0 good, 1 validation differs, 2 bad usage or input, 3 model not supported, 4 tool missing or failed, 130 interrupted
(143 by SIGTERM, 129 by SIGHUP),
70 a bug of glowembed. Nothing is decided here: every command is a file in commands/, one call and a report of what it gave.
"""

# ruff: noqa: E402

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from types import FrameType

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end us as Ctrl-C does: children are stopped and temporary folders removed on the way out."""


def _leave(number: int, frame: FrameType | None) -> None:
    """Ctrl-C and ENDINGS before main() runs, while the libraries are loaded: nothing is under way that could be left half-done."""
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
    os._exit(128 + number)


IS_COMMAND = __name__ == "__main__" or sys.argv[0].removesuffix(".exe").endswith("glowembed")  # imports this module
IS_WORKER = "__mp_main__" in sys.modules  # a process of a pool ends in silence: the one that has started it reports
if IS_COMMAND and not IS_WORKER:
    for _number in (signal.SIGINT, *ENDINGS):
        if _number == signal.SIGINT or signal.getsignal(_number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(_number, _leave)

gc.set_threshold(
    200_000, 20, 20
)  # loading makes many objects and no garbage: looking for it costs a fifth of a short command
atexit.register(gc.freeze)  # nor is there a reason to look for it at the end

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from glowembed.law import blas  # noqa: F401

# isort: split
import glowembed
from glowembed import commands
from glowembed.errors import GlowembedError, Interrupted, ToolError, UsageError
from glowembed.version import VERSION

BUG = 70
INTERRUPTED = 130
CLOSED = 141
"""The exit code of programs that SIGPIPE ends."""


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Click takes an EOFError for Ctrl-D at a prompt, and says "Aborted."; its own prompts have turned theirs into Abort."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise UsageError("a file ends too early: it is damaged, or was not written completely") from error

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, whose file is imported now. `--help` and `--version` import none."""
        name, _, rest = super().resolve_command(ctx, args)
        with _leaving():
            return name, None if name is None else commands.loaded(name, self.rich_markup_mode), rest


@contextmanager
def _leaving() -> Iterator[None]:
    """Signals end the process at once while a command is imported: a library can turn the KeyboardInterrupt into an error of its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


app = typer.Typer(
    cls=_Group,
    name="glowembed",
    help="Compile ONNX models to static int8 C bundles for Cortex-M and x86, and prove every bit of them.",
    epilog="Start with:  glowembed demo      Any error in full:  glowembed --debug COMMAND ...",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glowembed {VERSION}")
        raise typer.Exit


@app.callback()
def _main(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show errors with their traceback; may also follow a command.")
    ] = False,
    ops: Annotated[
        str | None,
        typer.Option(
            "--ops",
            metavar="FOLDER",
            help="Take the operators of this folder too, whose Python files are executed; may also follow a command.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    del debug, ops, version  # main() and the callback have taken them


commands.add_all(app)


def main(words: list[str] | None = None) -> int:
    """Run a command. An error that a user can mend is one message on stderr."""
    with _endings() as ended:
        code = _run(words, ended)
    if code == INTERRUPTED:
        # Python ends by SIGINT, whatever the exit code, if a KeyboardInterrupt left a text that was executed, as imports of dataclasses
        # do, and no other text was executed since.
        eval("0")  # noqa: S307
    return 128 + ended[0] if ended and code == INTERRUPTED else code


@contextmanager
def _endings() -> Iterator[list[int]]:
    """Ctrl-C and ENDINGS are noted, and raise KeyboardInterrupt; a second one of ENDINGS changes nothing. What is ignored (nohup)
    stays so.
    """
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        if len(ended) == 1 or number == signal.SIGINT:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(words: list[str] | None, ended: list[int]) -> int:
    words = list(sys.argv[1:] if words is None else words)
    debug, command = "--debug" in words, " ".join(["glowembed", *words])
    try:
        words, folder = _own_ops([word for word in words if word != "--debug"])
        if folder is not None:
            glowembed.use_ops(folder)
        app(words, prog_name="glowembed")
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # Click has closed standard output
            return CLOSED
        return _failed("interrupted", INTERRUPTED, False) if _code(exit_) == INTERRUPTED else _code(exit_)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED, debug)
    except Exception as error:
        if ended and not isinstance(error, Interrupted):  # a library has made another error of the KeyboardInterrupt
            return _failed("interrupted", INTERRUPTED, debug)
        return _explained(error, command, debug)
    return 0


def _explained(error: Exception, command: str, debug: bool) -> int:
    if isinstance(error, GlowembedError):
        return _failed("\n".join([str(error), *getattr(error, "__notes__", ())]), error.exit_code, debug)
    if isinstance(error, OSError):
        return _failed(f"{error.filename or command}: {error.strerror or error}", UsageError.exit_code, debug)
    if isinstance(error, MemoryError):
        return _failed(f"{command}: there is not enough memory", ToolError.exit_code, debug)
    traceback.print_exc()
    return _failed("this is a bug of glowembed; please report it with the lines above", BUG, False)


def _own_ops(words: list[str]) -> tuple[list[str], str | None]:
    """The words without --ops FOLDER, wherever it stands, and the folder."""
    rest, folder, left = list[str](), None, iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name != "--ops":
            rest.append(word)
            continue
        folder = value if equals else next(left, None)
        if not folder:
            raise UsageError("--ops needs a folder: glowembed compile MODEL --ops FOLDER")
    return rest, folder


def _code(exit_: SystemExit) -> int:
    return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), message.rstrip()))
    return code


if __name__ == "__main__":
    sys.exit(main())
