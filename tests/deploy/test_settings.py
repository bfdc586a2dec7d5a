"""Every variable that the deployment sets is one that is read, and every one that must be set is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.runtime.config import SettingsError
from tests.deploy.manifests import environment, manifests
from tests.support.compose import OURS, here, merged, project, raw, variables, with_values
from tests.support.repository import ROOT
from tests.support.service_settings import read

SERVICES: dict[str, dict[str, Any]] = project()["services"]
PODS = [each for each in manifests() if each["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_compose_is_told_what_it_reads_and_nothing_else(name: str) -> None:
    given = SERVICES[name]["environment"]

    assert set(given) <= read(SERVICES[name]["command"][1], given)


@pytest.mark.parametrize("name", ["ingest", "orchestrator", "worker"])
def test_a_service_of_compose_needs_every_secret_it_is_given(name: str) -> None:
    given = SERVICES[name]["environment"]
    secret = [key for key, text in raw()["services"][name]["environment"].items() if ":?" in text]

    for key in secret:
        if key == "REDRIVE_CREDENTIAL_KEYS":
            continue  # without it credentials are off
        with pytest.raises(SettingsError, match=key):
            read(name, {other: text for other, text in given.items() if other != key})


@pytest.mark.parametrize("manifest", PODS, ids=lambda each: each["metadata"]["name"])
def test_a_service_of_kubernetes_is_told_what_it_reads_and_nothing_else(manifest: dict[str, Any]) -> None:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    given = environment(container)

    assert set(given) <= read(container["args"][1], given)


@pytest.mark.parametrize("name", ["ingest", "orchestrator", "worker"])
def test_both_deployments_tell_a_service_the_same_settings(name: str) -> None:
    (manifest,) = (each for each in PODS if each["metadata"]["name"] == name)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]

    assert environment(container).keys() == SERVICES[name]["environment"].keys()
    assert container["args"] == SERVICES[name]["command"]


@pytest.mark.parametrize("name", OURS)
def test_secrets_may_come_from_files(name: str, tmp_path: Path) -> None:
    over = raw(ROOT / "deploy" / "compose.secrets.yml")
    found = with_values(merged(raw(), over), variables(ROOT / "deploy" / "env.files"))["services"][name]
    for key, text in found["environment"].items():
        if key.endswith("_FILE"):
            (tmp_path / Path(text).name).write_text(SERVICES[name]["environment"][key.removesuffix("_FILE")] + "\n")

    given = {key: here(text, {"/run/secrets": tmp_path}) for key, text in found["environment"].items()}

    assert set(given) <= read(found["command"][1], given)
    assert any(key.endswith("_FILE") for key in given)
