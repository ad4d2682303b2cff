"""Boards that cannot run here: they build, link, and lie where the chip looks for them."""

from __future__ import annotations

import struct
from pathlib import Path

import fake_bundle
import pytest
from elftools.elf.elffile import ELFFile

from glowembed import resources
from glowembed.errors import ToolError, UsageError
from glowembed.graph.target import board_names, load_board
from glowembed.image.build import Image, build
from glowembed.run import flash

REAL = [name for name in board_names() if load_board(name).flash is not None]
README = (resources.boards() / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    made = {}
    for name in REAL:
        board, folder = load_board(name), tmp_path_factory.mktemp(name)
        bundle = fake_bundle.write(folder / "bundle", board.target)
        made[name] = build(bundle, board, folder / "build", "serial")
    return made


@pytest.mark.parametrize("name", board_names())
def test_the_readme_has_every_board_and_its_state(name: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {name} |")]
    board = load_board(name)
    state = "run under QEMU" if board.qemu else "builds, not yet run on hardware"
    assert name == "host" or state in row
    assert board.uart is None or f"| {board.uart.kind} |" in row


@pytest.mark.arm_gcc
@pytest.mark.parametrize("name", REAL)
def test_the_vectors_are_where_the_chip_looks(images: dict[str, Image], name: str) -> None:
    image = images[name]
    code = next(m for m in image.board.memories if m.kind == "flash" and m.name != "boot2")
    with image.elf.open("rb") as file:
        elf = ELFFile(file)
        symbols = {s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols()}
        vectors = elf.get_section_by_name(".vectors")
        assert vectors["sh_addr"] == code.start
        stack, reset, *handlers = struct.unpack("<16I", vectors.data())
    assert stack == symbols["ge_stack_top"]
    assert any(m.start < stack <= m.start + m.size for m in image.board.memories if m.kind != "flash")
    assert reset == symbols["ge_reset"] | 1
    assert all(handler == 0 or handler & 1 for handler in handlers)
    assert handlers[13] == symbols["ge_tick_handler"] | 1
    assert "ge_clock_init" in symbols
    for start, data in flash.segments(image.elf):
        assert any(
            m.start <= start and start + len(data) <= m.start + m.size
            for m in image.board.memories
            if m.kind == "flash"
        )


@pytest.mark.parametrize("name", REAL)
def test_sources_cite_their_manual(name: str) -> None:
    folder = resources.boards() / name
    for line in (folder / "startup.c").read_text().splitlines():
        if line.strip().startswith("REG(") and "=" in line and "0xE000" not in line:
            assert "/*" in line or "SCB" in line or "CLKSEL" in line or "FLASH" in line, f"{name}: no manual: {line}"


@pytest.mark.arm_gcc
@pytest.mark.parametrize("name", REAL)
def test_files_for_flash_tools_say_the_same(images: dict[str, Image], name: str) -> None:
    pieces = flash.segments(images[name].elf)
    raw, start = flash.as_bin(pieces), pieces[0][0]
    assert read_hex(flash.as_hex(pieces).decode()) == {a + i: byte for a, data in pieces for i, byte in enumerate(data)}
    blocks = [flash.as_uf2(pieces)[at : at + 512] for at in range(0, len(flash.as_uf2(pieces)), 512)]
    assert all(struct.unpack_from("<I", block)[0] == 0x0A324655 for block in blocks)
    joined = b"".join(block[32:288] for block in blocks)
    assert [struct.unpack_from("<I", block, 12)[0] for block in blocks] == [start + 256 * n for n in range(len(blocks))]
    assert joined[:252] == raw[:252]
    assert joined[256 : len(raw)] == raw[256:]


def read_hex(text: str) -> dict[int, int]:
    found, base = {}, 0
    for line in text.splitlines():
        data = bytes.fromhex(line[1:])
        assert sum(data) & 0xFF == 0
        count, address, kind = data[0], int.from_bytes(data[1:3], "big"), data[3]
        if kind == 4:
            base = int.from_bytes(data[4:6], "big") << 16
        if kind == 0:
            found |= {base + address + n: byte for n, byte in enumerate(data[4 : 4 + count])}
    return found


def test_the_checksum_of_the_second_stage() -> None:
    """CRC-32/MPEG-2, as the boot ROM of the RP2040 computes it (data sheet, 2.8.1.3.1); its check value is published."""
    assert flash.crc32_mpeg2(b"123456789") == 0x0376E6E7


@pytest.mark.arm_gcc
def test_tools_that_are_absent(images: dict[str, Image], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flash, "UF2_DRIVES", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, words in (("nucleo-l4r5zi", "apt-get install openocd"), ("rpi-pico", "hold BOOTSEL")):
        with pytest.raises(ToolError, match=words):
            flash.flash(images[name])


@pytest.mark.arm_gcc
def test_a_tool_is_called_with_the_firmware(
    images: dict[str, Image], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "openocd"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\necho no probe >&2\nexit ${{FAIL:-0}}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    flash.flash(images["nucleo-l4r5zi"])
    assert (tmp_path / "said").read_text() == "-f board/st_nucleo_l4.cfg -c program firmware.elf verify reset exit\n"
    flash.flash(images["nucleo-l4r5zi"], {"probe": "066D"})
    assert ".cfg -c adapter serial 066D -c program firmware.elf" in (tmp_path / "said").read_text()
    monkeypatch.setenv("FAIL", "1")
    with pytest.raises(ToolError, match=r"could not flash board 'nucleo-l4r5zi' .exit code 1.(.|\n)*no probe"):
        flash.flash(images["nucleo-l4r5zi"])


@pytest.mark.arm_gcc
def test_a_uf2_drive(images: dict[str, Image], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drive = tmp_path / "RPI-RP2"
    drive.mkdir()
    (drive / "INFO_UF2.TXT").write_text("UF2")
    monkeypatch.setattr(flash, "UF2_DRIVES", (str(tmp_path),))
    flash.flash(images["rpi-pico"])
    (copied,) = drive.glob("*.uf2")
    page = copied.read_bytes()[32:288]
    assert flash.crc32_mpeg2(page[:252]) == int.from_bytes(page[252:], "little")
    with pytest.raises(ToolError, match="of the name 'OTHER', but of RPI-RP2"):
        flash.flash(images["rpi-pico"], {"probe": "OTHER"})


@pytest.mark.arm_gcc
def test_an_emulated_board_is_not_flashed(tmp_path: Path) -> None:
    board = load_board("mps2-an386")
    image = build(fake_bundle.write(tmp_path / "bundle", board.target), board, tmp_path / "build", "serial")
    with pytest.raises(UsageError, match="it is emulated"):
        flash.flash(image)
