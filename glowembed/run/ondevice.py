"""Runs a whole validation over a serial line. In: an Image, a Link, samples, the expected results. Out: RunResult,
Located.

The order is: flash if requested, open the line, hello, all samples, figures and, if a result is wrong, the layer from
which it comes. A board that hangs is switched off and on again, where that can be done, and everything is done once more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from glowembed.errors import Interrupted, ToolError, UsageError
from glowembed.graph.target import Board
from glowembed.image.build import Image
from glowembed.records import dataclass
from glowembed.run import Bytes, RunResult, bench, flash, serial
from glowembed.run.bench import Bench
from glowembed.run.device import Device, NoAnswer, Settings, WrongFirmware
from glowembed.run.line import LineClosed
from glowembed.run.pieces import pieces
from glowembed.run.serial import Located, Session
from glowembed.run.store import Store, key


@dataclass(frozen=True)
class Link:
    """How to reach a board. transport: `semihosting`, `serial`, or None for the first one of the board; a port means
    serial. resume: continue with the results that an earlier run has left in `results`. patience: see Settings. probe: the
    serial number of the debug probe, where several are connected.
    """

    transport: str | None = None
    port: str | None = None
    baud: int | None = None
    flash: bool = False
    resume: bool = False
    results: Path | None = None
    patience: float = 10.0
    probe: str | None = None

    def held(self, board: Board) -> AbstractContextManager[Bench | None]:
        """The board at the port, held until the context ends; None if the board is not at a port."""
        if self.port is None:
            return nullcontext()
        return bench.held(self.port, _baud(board, self), self.probe)


@dataclass(frozen=True)
class Reference:
    """The expected results of the samples: outputs, one row each; and for one sample, the raw bytes of every value.
    made: the values of each layer.
    """

    outputs: Bytes
    values: Callable[[int], Mapping[str, bytes]]
    made: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Wrong:
    """sample: the first with a wrong result, None if there is none. located: the layer from which it comes; None if
    every layer was right by itself. constants: those in flash that differ from the bundle's, even if no sample shows
    it.
    """

    sample: int | None
    located: Located | None
    constants: tuple[str, ...]


def run(
    image: Image,
    manifest: Mapping[str, Any],
    link: Link,
    samples: Bytes,
    reference: Reference,
    layer_samples: int,
    progress: Callable[[int, int], None],
    held: Bench | None = None,
) -> tuple[RunResult, Wrong | None]:
    """Run all samples and, for the first `layer_samples`, every layer. held: the board, if it is at a port.

    A board that cannot be flashed, that is silent, or that runs other firmware than was flashed is switched off and on again, if it can
    be, and all is done once more.
    """
    wanted = (image, manifest, samples, reference, layer_samples, progress)
    try:
        return _run(link, held, *wanted)
    except (flash.FlashFailed, NoAnswer, LineClosed, WrongFirmware) as error:
        if held is None or held.place is None or (isinstance(error, WrongFirmware) and not link.flash):
            raise
        if why_not := held.power_cycle():
            error.add_note(f"its power could not be switched off and on again: {why_not}")
            raise
        why = str(error).partition("\n")[0]
        sys.stderr.write(
            f"{held.name}: its power was switched off and on, and all is tried once more, because: {why}\n"
        )
    return _run(replace(link, resume=True), held, *wanted)


def _run(
    link: Link,
    held: Bench | None,
    image: Image,
    manifest: Mapping[str, Any],
    samples: Bytes,
    reference: Reference,
    layer_samples: int,
    progress: Callable[[int, int], None],
) -> tuple[RunResult, Wrong | None]:
    if link.flash:
        flash.flash(image, held.flash_words() if held is not None else {})
    with serial.board_line(image, held) as line:
        session = serial.open_session(line, image, manifest, Settings(_baud(image.board, link), patience=link.patience))
        store = Store(link.results, key(manifest["hash"], samples), link.resume)
        finished = False
        try:
            result = serial.run(session, samples, store, progress, image.board)
            finished = True
        except KeyboardInterrupt as stopped:
            raise Interrupted("\n".join(["interrupted", *_kept(store, samples)])) from stopped
        except ToolError as error:
            for words in _kept(store, samples):
                error.add_note(words)
            raise
        finally:
            store.close(finished)
        if layer_samples:
            result = replace(result, layer_outputs=_layers(session, samples[:layer_samples], reference))
        return result, _wrong(session, image, samples, result, reference)


def _kept(store: Store, samples: Bytes) -> list[str]:
    """A sentence that says how to continue an interrupted run, if anything is left of it."""
    if store.path is None or not store.done:
        return []
    return [f"{len(store.done)} of {len(samples)} results are on disk: the same command with --resume goes on"]


def _baud(board: Board, link: Link) -> int:
    baud = link.baud or (board.uart.baud if board.uart is not None else 115200)
    if baud < 1:
        raise UsageError(f"--baud {baud}: expected a rate like 115200")
    return baud


def _wrong(session: Session, image: Image, samples: Bytes, result: RunResult, reference: Reference) -> Wrong | None:
    constants = serial.constants_that_differ(session, serial.weights_of(image.elf)) if image.board.memories else ()
    found = np.concatenate(result.outputs, axis=1)
    differs = np.flatnonzero(np.any(found != reference.outputs, axis=1))
    if not len(differs):
        return Wrong(None, None, constants) if constants else None
    first = int(differs[0])
    where = pieces(session.manifest, reference.made)
    return Wrong(first, serial.locate(session, samples[first].tobytes(), reference.values(first), where), constants)


def _layers(session: Session, samples: Bytes, reference: Reference) -> tuple[tuple[Bytes, ...], ...]:
    """The layers' results, per layer and output: [samples, bytes]. Only checksums and differing data cross the line."""
    rows = [
        session.step(partial(_layers_of, session, sample.tobytes(), reference.values(index)))
        for index, sample in enumerate(samples)
    ]
    return tuple(
        tuple(np.stack([np.frombuffer(row[layer][n], np.uint8) for row in rows]) for n in range(len(outputs)))
        for layer, outputs in enumerate(rows[0])
    )


def _layers_of(
    session: Session, sample: bytes, right: Mapping[str, bytes], device: Device
) -> Sequence[Sequence[bytes]]:
    serial.write_sample(device, session.manifest, sample)
    found = []
    for index, layer in enumerate(session.manifest["layers"]):
        device.layers(index, 1, session.seconds)
        found.append([_tensor(device, tensor, right[tensor["name"]]) for tensor in layer["outputs"]])
    return found


def _tensor(device: Device, tensor: Mapping[str, Any], right: bytes) -> bytes:
    same = device.checksum(tensor["offset"], tensor["bytes"]) == crc32(right)
    return right if same else device.read(tensor["offset"], tensor["bytes"])
