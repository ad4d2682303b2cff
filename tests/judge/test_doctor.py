"""`glowembed doctor`: on a computer that has nothing, and on this one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from json_result import check_json

from glowembed.__main__ import main
from glowembed.judge import doctor

WITHOUT_ANYTHING = {
    "cortex-m4": ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    "riscv32": ("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc"),
    "x86-64": ("gcc",),
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer without any program, and with a serial port that only root may open."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.list_ports, "comports", lambda: [SimpleNamespace(device="/nowhere/ttyACM0")])


@pytest.mark.parametrize("target", WITHOUT_ANYTHING)
def test_one_line_installs_what_a_target_needs(target: str, bare: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", target, "--json", "-"]) == 4
    found = json.loads(capsys.readouterr().out)
    check_json("doctor", found)
    assert not found["complete"]
    words = found["install"].split()
    assert words[:3] == ["sudo", "apt-get", "install"]
    assert set(WITHOUT_ANYTHING[target]) <= set(words[3:])
    assert main(["doctor", "--target", target]) == 4
    assert f"to install it:  {found['install']}" in capsys.readouterr().out


def test_all_targets_are_looked_at_and_a_locked_port_is_explained(
    bare: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", "-"]) == 4
    found = json.loads(capsys.readouterr().out)
    names = [finding["name"] for finding in found["findings"]]
    assert len(names) == len(set(names))
    assert {package for packages in WITHOUT_ANYTHING.values() for package in packages} <= set(found["install"].split())
    (port,) = (finding for finding in found["findings"] if finding["name"] == "/nowhere/ttyACM0")
    assert port["state"] == "optional"
    assert "dialout" in port["hint"]


@pytest.mark.cc
def test_nothing_is_missing_for_this_computer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "x86-64"]) == 0
    assert "nothing is missing" in capsys.readouterr().out


def test_an_unknown_target_is_refused() -> None:
    assert main(["doctor", "--target", "cortex-m44"]) == 2
