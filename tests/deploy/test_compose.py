"""docker-compose.yml: what Compose accepts, hardened, bounded, and without a secret in it."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest

from tests.support.compose import COMPOSE, EXAMPLE, ONCE, OURS, asked, merged, project, raw, variables, with_values
from tests.support.repository import ROOT

PROJECT = project()
SERVICES: dict[str, dict[str, Any]] = PROJECT["services"]
SECRETS = ROOT / "deploy" / "compose.secrets.yml"
FILES = ROOT / "deploy" / "env.files"
SECRET_NAME = re.compile(r"PASSWORD|SECRET|TOKEN|KEYS|_URL$")


def test_compose_is_what_the_compose_specification_allows() -> None:
    schema = json.loads((resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())

    jsonschema.validate(raw(), schema)
    jsonschema.validate(PROJECT, schema)
    jsonschema.validate(merged(raw(), raw(SECRETS)), schema)


def test_the_system_is_whole() -> None:
    assert {"postgres", "rabbitmq", *OURS} == {name for name, about in SERVICES.items() if "profiles" not in about}
    assert {name for name, about in SERVICES.items() if about.get("profiles") == ["monitoring"]} == {
        "prometheus",
        "grafana",
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_without_rights_and_without_a_place_to_write(name: str) -> None:
    about = SERVICES[name]
    uid, _, _ = about["user"].partition(":")

    assert int(uid) > 0
    assert about["read_only"] is True
    assert about["cap_drop"] == ["ALL"]
    assert about["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode"} & about.keys()
    assert all(":size=" in place for place in about["tmpfs"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_limits_and_its_log_too(name: str) -> None:
    limits = SERVICES[name]["deploy"]["resources"]["limits"]

    assert float(limits["cpus"]) > 0
    assert re.fullmatch(r"[1-9]\d*[mg]", limits["memory"])
    assert limits["pids"] > 0
    assert SERVICES[name]["logging"]["options"].keys() == {"max-size", "max-file"}


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in ONCE])
def test_what_stays_up_says_whether_it_is_well_and_is_started_again(name: str) -> None:
    check = SERVICES[name]["healthcheck"]

    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries", "start_period"} <= check.keys()
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", ONCE)
def test_what_runs_once_is_not_started_again(name: str) -> None:
    assert SERVICES[name]["restart"] == "no"
    assert "healthcheck" not in SERVICES[name]


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_wait_for_what_is_needed_and_not_only_for_a_start(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in ONCE else "service_healthy"
        assert how == {"condition": wanted}, f"{name} on {other}"


def test_nothing_decides_before_the_schema_is_there() -> None:
    assert all("migrate" in SERVICES[name]["depends_on"] for name in ("ingest", "orchestrator"))


def test_there_may_be_many_workers() -> None:
    assert not {"container_name", "hostname", "ports", "volumes"} & SERVICES["worker"].keys()
    assert "REDRIVE_WORKER_NAME" not in SERVICES["worker"]["environment"]


def test_a_worker_cannot_reach_the_database_and_servers_cannot_reach_the_world() -> None:
    assert not set(SERVICES["worker"]["networks"]) & set(SERVICES["postgres"]["networks"])
    for name in ("postgres", "rabbitmq", "orchestrator", "migrate"):
        assert all(PROJECT["networks"][network] == {"internal": True} for network in SERVICES[name]["networks"])


def test_ports_are_published_on_the_loopback_unless_someone_asks() -> None:
    published = [port for about in SERVICES.values() for port in about.get("ports", ())]

    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_a_version_and_no_registry(name: str) -> None:
    place, _, tag = SERVICES[name]["image"].rpartition(":")

    assert re.match(r"v?\d+\.\d+", tag)
    assert "." not in place.partition("/")[0]


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_ours_is_built_for_the_service_that_its_name_says(name: str) -> None:
    about = SERVICES[name]
    service = about["build"]["args"]["SERVICE"]

    assert about["image"].partition(":")[0] == f"redrive-{service}"
    assert (ROOT / about["build"]["context"] / about["build"]["dockerfile"]).is_file()
    assert name in ONCE or service == name


def test_no_secret_stands_in_the_file_nor_has_a_default() -> None:
    for name, about in raw()["services"].items():
        for variable, text in about.get("environment", {}).items():
            if SECRET_NAME.search(variable) and variable != "REDRIVE_INGEST_URL":
                assert ":?" in text, f"{name}: {variable}"
    assert [name for name, how, _ in asked(raw()) if SECRET_NAME.search(name) and how != ":?"] == []


def test_no_value_of_the_example_stands_anywhere_else() -> None:
    texts = [path.read_text() for path in (ROOT / "deploy").rglob("*") if path.is_file() and path != EXAMPLE]

    for value in variables().values():
        assert not any(value in text for text in [COMPOSE.read_text(), *texts])


def test_the_example_says_every_variable_and_no_other() -> None:
    example = EXAMPLE.read_text()
    documented = set(re.findall(r"^#? ?([A-Z][A-Z_]+)=", example, re.M))
    needed = {name for name, how, _ in asked(raw()) if how == ":?"}

    assert needed == set(variables())
    assert documented == {name for name, _, _ in asked(raw())}


def test_the_example_says_the_defaults_that_are() -> None:
    told = dict(re.findall(r"^# ([A-Z][A-Z_]+)=(.*)$", EXAMPLE.read_text(), re.M))

    assert told == {name: rest for name, how, rest in asked(raw()) if how == ":-"}


@pytest.mark.parametrize("name", sorted(variables()))
def test_a_secret_that_is_missing_is_said_before_anything_starts(name: str) -> None:
    without = {key: value for key, value in variables().items() if key != name}

    with pytest.raises(AssertionError, match=f"{name} is not set"):
        with_values(raw(), without)


def test_every_file_that_is_mounted_is_there() -> None:
    files = [ROOT / about["file"] for about in PROJECT["configs"].values()]
    files += [
        ROOT / volume.partition(":")[0]
        for about in SERVICES.values()
        for volume in about.get("volumes", ())
        if volume.startswith(".")
    ]

    assert [path for path in files if not path.exists()] == []


def test_with_secrets_in_files_no_environment_holds_one() -> None:
    found = with_values(merged(raw(), raw(SECRETS)), variables(FILES))

    for name, about in found["services"].items():
        assert "in-a-file" not in json.dumps(about), name
        given = {secret: f"/run/secrets/{secret}" for secret in about.get("secrets", ())}
        named = [text for text in about.get("environment", {}).values() if text.startswith("/run/secrets/")]
        assert sorted(named) == sorted(given.values())
        # Compose copies other secrets into the container, which cannot be written to.
        assert all(found["secrets"][secret].keys() == {"file"} for secret in given)
    assert set(variables(FILES)) == {*variables(), "REDRIVE_SECRETS"}
