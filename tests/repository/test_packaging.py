"""pyproject.toml, the lock files and the sources agree."""

from __future__ import annotations

import tomllib

import pytest
from checkout import ROOT
from packaging.requirements import Requirement

from glowembed import resources, version

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(*files: str) -> dict[str, str]:
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines() if "==" in line]
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


RUN = locked("requirements.lock")
DEV = locked("requirements.lock", "requirements-dev.lock")
ASKED = [
    *((requirement, RUN) for requirement in PYPROJECT["project"]["dependencies"]),
    *((requirement, RUN) for requirement in PYPROJECT["build-system"]["requires"]),
    *((requirement, DEV) for requirement in PYPROJECT["project"]["optional-dependencies"]["dev"]),
]


def test_one_version() -> None:
    assert PYPROJECT["project"]["version"] == version.VERSION
    assert f"## [{version.VERSION}] - " in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize(("asked", "lock"), ASKED, ids=[asked for asked, _ in ASKED])
def test_lock_is_within_the_range(asked: str, lock: dict[str, str]) -> None:
    requirement = Requirement(asked)
    assert lock[requirement.name.lower()] in requirement.specifier


def test_wheel_carries_what_is_not_python() -> None:
    carried = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"glowembed/_data/{mark}" for mark in resources.MARKS} <= set(carried.values())
    assert [path for path in carried if not (ROOT / path).exists()] == []


def test_types_are_for_users_too() -> None:
    assert (ROOT / "glowembed" / "py.typed").is_file()
