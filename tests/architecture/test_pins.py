"""Every dependency that pyproject.toml names has one exact version in constraints.txt."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.repository import ROOT, project

PIN = re.compile(r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[0-9][0-9a-z.]*)")
METADATA = project()
REQUIREMENTS = {
    "base": METADATA["project"]["dependencies"],
    "build": METADATA["build-system"]["requires"],
    **METADATA["project"]["optional-dependencies"],
}


def pin_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def pins() -> dict[str, str]:
    return {name: version for name, _, version in (line.partition("==") for line in pin_lines())}


def test_every_pin_is_a_name_and_an_exact_version_said_once() -> None:
    lines = pin_lines()

    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert len(pins()) == len(lines)
    assert lines == sorted(lines)


@pytest.mark.parametrize("extra", REQUIREMENTS)
def test_every_dependency_of_an_extra_is_pinned_within_its_bounds(extra: str) -> None:
    pinned = pins()

    for requirement in map(Requirement, REQUIREMENTS[extra]):
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{requirement} has no pin; run `make constraints`"
        assert requirement.specifier.contains(pinned[name], prereleases=True)


def test_every_service_has_an_extra_of_its_own() -> None:
    assert {"ingest", "orchestrator", "worker", "cli"} <= REQUIREMENTS.keys()
