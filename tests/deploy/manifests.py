"""The Kubernetes manifests as `kustomize build` would give them, for what our kustomization says."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.compose import project
from tests.support.repository import ROOT

BASE = ROOT / "deploy" / "kubernetes" / "base"
# What names no namespace.
OF_THE_CLUSTER = ("Namespace",)


def kustomization() -> dict[str, Any]:
    """Return the kustomization itself."""
    found: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    return found


def manifests() -> list[dict[str, Any]]:
    """Return everything that is applied, with the namespace, labels and tags of the kustomization."""
    told = kustomization()
    assert told.keys() == {"apiVersion", "kind", "namespace", "labels", "resources", "images"}, "build by hand no more"
    found = [
        each for name in told["resources"] for each in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8"))
    ]
    tags = {image["name"]: image["newTag"] for image in told["images"]}
    for each in found:
        _complete(each, told, tags)
    return found


def _complete(manifest: dict[str, Any], told: dict[str, Any], tags: dict[str, str]) -> None:
    metadata, (labels,) = manifest["metadata"], told["labels"]
    assert labels["includeTemplates"] is True
    metadata["labels"] = {**metadata.get("labels", {}), **labels["pairs"]}
    if manifest["kind"] not in OF_THE_CLUSTER:
        metadata["namespace"] = told["namespace"]
    template = manifest["spec"].get("template") if "spec" in manifest else None
    if template is not None:
        template["metadata"]["labels"] |= labels["pairs"]
        for container in template["spec"]["containers"]:
            container["image"] += f":{tags[container['image']]}"


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Return what a container is told; a secret is what Compose gives to the same service."""
    (settings,) = (each["data"] for each in manifests() if each["kind"] == "ConfigMap")
    shared = settings if container.get("envFrom") else {}
    secrets = project()["services"][container["name"]]["environment"]
    return {**shared, **{each["name"]: each.get("value") or secrets[each["name"]] for each in container["env"]}}
