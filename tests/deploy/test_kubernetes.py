"""deploy/kubernetes: what Kubernetes accepts, what KEDA needs, and that the parts fit together."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from shared.broker.topology import EVENTS, jobs_queue
from tests.deploy.manifests import BASE, environment, kustomization, manifests
from tests.support.repository import ROOT

KUBERNETES = "1.31"
FOUND = manifests()
SERVICES = ("ingest", "orchestrator", "worker")
NAME = "app.kubernetes.io/name"

# What these say is all they may say here; KEDA itself leaves much of it open.
TRIGGER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["type", "metadata", "authenticationRef"],
    "properties": {
        "type": {"const": "rabbitmq"},
        "metadata": {
            "type": "object",
            "additionalProperties": False,
            "required": ["protocol", "queueName", "mode", "value"],
            "properties": {
                "protocol": {"const": "amqp"},
                "queueName": {"type": "string", "pattern": r"^redrive\.v1\."},
                "mode": {"const": "QueueLength"},
                "value": {"type": "string", "pattern": "^[1-9][0-9]*$"},
            },
        },
        "authenticationRef": {
            "type": "object", "additionalProperties": False, "required": ["name"],
            "properties": {"name": {"type": "string"}},
        },
    },
}  # fmt: skip
WHOLE = {"type": "integer", "minimum": 1}
SCALED_OBJECT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["scaleTargetRef", "minReplicaCount", "maxReplicaCount", "triggers"],
    "properties": {
        "scaleTargetRef": {
            "type": "object", "additionalProperties": False, "required": ["apiVersion", "kind", "name"],
            "properties": {
                "apiVersion": {"const": "apps/v1"}, "kind": {"const": "Deployment"}, "name": {"type": "string"}
            },
        },
        "minReplicaCount": WHOLE,
        "maxReplicaCount": WHOLE,
        "pollingInterval": WHOLE,
        "cooldownPeriod": WHOLE,
        "fallback": {
            "type": "object", "additionalProperties": False, "required": ["failureThreshold", "replicas"],
            "properties": {"failureThreshold": WHOLE, "replicas": WHOLE},
        },
        "advanced": {
            "type": "object", "additionalProperties": False,
            "properties": {"horizontalPodAutoscalerConfig": {
                "type": "object", "additionalProperties": False, "properties": {"behavior": {"type": "object"}}
            }},
        },
        "triggers": {"type": "array", "minItems": 1, "items": TRIGGER},
    },
}  # fmt: skip
TRIGGER_AUTHENTICATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["secretTargetRef"],
    "properties": {
        "secretTargetRef": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["parameter", "name", "key"],
                "properties": {"parameter": {"const": "host"}, "name": {"type": "string"}, "key": {"type": "string"}},
            },
        }
    },
}


def of(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in FOUND if each["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    return {name: each["spec"]["template"]["spec"] for name, each in {**of("Deployment"), **of("Job")}.items()}


def container(name: str) -> dict[str, Any]:
    (found,) = pods()[name]["containers"]
    return dict(found)


def policy(name: str) -> dict[str, Any]:
    return dict(of("NetworkPolicy")[name]["spec"])


def selected(selector: dict[str, Any]) -> set[str]:
    """Return the names of the pods that a selector means."""
    if "matchLabels" in selector:
        return {selector["matchLabels"][NAME]}
    if "matchExpressions" in selector:
        (only,) = selector["matchExpressions"]
        assert (only["key"], only["operator"]) == (NAME, "In")
        return set(only["values"])
    return set(pods())


def ports_of(rules: list[dict[str, Any]]) -> set[int]:
    return {port["port"] for rule in rules for port in rule["ports"]}


def test_every_file_of_the_base_is_applied() -> None:
    files = {path.name for path in BASE.iterdir()} - {"kustomization.yaml"}

    assert files == set(kustomization()["resources"])


def test_nothing_is_there_twice() -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in FOUND]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "manifest",
    [each for each in FOUND if not each["apiVersion"].startswith("keda")],
    ids=lambda each: f"{each['kind']}-{each['metadata']['name']}",
)
def test_kubernetes_accepts_what_is_applied(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_mistake_in_a_manifest_would_be_noticed() -> None:
    wrong = {**of("Deployment")["worker"], "spec": {**of("Deployment")["worker"]["spec"], "replicaz": 2}}

    with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", ["worker", "orchestrator"])
def test_keda_scales_by_the_length_of_a_queue_that_there_is(name: str) -> None:
    about = of("ScaledObject")[name]["spec"]
    queues = {"worker": jobs_queue("default"), "orchestrator": EVENTS}

    jsonschema.validate(about, SCALED_OBJECT)
    assert about["scaleTargetRef"]["name"] in of("Deployment")
    assert about["minReplicaCount"] < about["maxReplicaCount"]
    assert [trigger["metadata"]["queueName"] for trigger in about["triggers"]] == [queues[name]]
    assert {trigger["authenticationRef"]["name"] for trigger in about["triggers"]} <= of("TriggerAuthentication").keys()
    assert "replicas" not in of("Deployment")[name]["spec"], "applying again would undo what KEDA did"


def test_keda_has_a_user_of_its_own() -> None:
    (about,) = of("TriggerAuthentication").values()

    jsonschema.validate(about["spec"], TRIGGER_AUTHENTICATION)
    assert {ref["name"] for ref in about["spec"]["secretTargetRef"]} == {"redrive-scaler"}
    assert {each["apiVersion"] for each in FOUND if each["apiVersion"].startswith("keda")} == {"keda.sh/v1alpha1"}


@pytest.mark.parametrize("name", SERVICES)
def test_probes_ask_where_the_service_answers(name: str) -> None:
    about, given = container(name), environment(container(name))
    (port,) = about["ports"]
    probes = {kind: about[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}

    assert port["containerPort"] == int(given.get("REDRIVE_HEALTH_PORT") or given["REDRIVE_PORT"])
    assert {each["port"] for each in probes.values()} == {port["name"]}
    # A dependency that is away makes a service not ready; killing it would not bring the dependency back.
    assert [probes[kind]["path"] for kind in ("startup", "liveness", "readiness")] == [
        "/healthz",
        "/healthz",
        "/readyz",
    ]
    annotations = of("Deployment")[name]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


@pytest.mark.parametrize("name", [*SERVICES, "migrate"])
def test_every_pod_is_without_rights_and_without_a_place_to_write(name: str) -> None:
    pod, about = pods()[name], container(name)

    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] in of("ServiceAccount")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert about["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert about["resources"].keys() == {"requests", "limits"}
    assert all(about["resources"][kind].keys() == {"cpu", "memory"} for kind in ("requests", "limits"))
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_a_pod_has_time_to_finish(name: str) -> None:
    assert pods()[name]["terminationGracePeriodSeconds"] > 20 + 10


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_found_and_kept_up_by_its_label(name: str) -> None:
    label = {NAME: name}
    deployment = of("Deployment")[name]["spec"]

    assert deployment["selector"]["matchLabels"] == label
    assert label.items() <= deployment["template"]["metadata"]["labels"].items()
    assert of("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == label
    assert of("Service")[name]["spec"]["selector"] == label
    (port,) = of("Service")[name]["spec"]["ports"]
    assert port["targetPort"] == container(name)["ports"][0]["name"]


def test_workers_find_ingest_by_the_name_of_its_service() -> None:
    (port,) = of("Service")["ingest"]["spec"]["ports"]

    assert environment(container("worker"))["REDRIVE_INGEST_URL"] == f"http://ingest:{port['port']}"


def test_no_secret_is_kept_here_and_each_is_explained() -> None:
    readme = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    used = {
        (each["valueFrom"]["secretKeyRef"]["name"], each["valueFrom"]["secretKeyRef"]["key"])
        for name in pods()
        for each in container(name)["env"]
        if "valueFrom" in each
    }
    (scaler,) = of("TriggerAuthentication")["redrive-scaler"]["spec"]["secretTargetRef"]

    assert not of("Secret")
    for secret, key in {*used, (scaler["name"], scaler["key"])}:
        assert re.search(rf"generic {secret} .*--from-\w+={key}=", readme.replace("\\\n", " ")), f"{secret}: {key}"


def test_a_worker_has_no_secret_of_another_service() -> None:
    refs = {each["valueFrom"]["secretKeyRef"]["name"] for each in container("worker")["env"] if "valueFrom" in each}

    assert refs == {"redrive-worker"}


def test_what_is_not_opened_is_closed() -> None:
    assert policy("deny-all") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_a_worker_cannot_reach_the_database_nor_private_addresses() -> None:
    assert selected(policy("database")["podSelector"]) == {"ingest", "orchestrator", "migrate"}
    opened = [each for each in of("NetworkPolicy").values() if "worker" in selected(each["spec"]["podSelector"])]
    ports = {port for each in opened for port in ports_of([r for r in each["spec"].get("egress", ()) if "ports" in r])}
    world = [block["ipBlock"] for rule in policy("worker")["egress"] for block in rule["to"] if "ipBlock" in block]

    assert ports == {53, 5671, 5672, 8080}
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(world[0]["except"])
    assert {block["cidr"] for block in world} == {"0.0.0.0/0", "::/0"}


def test_every_service_reaches_the_broker_and_names_and_workers_reach_ingest() -> None:
    assert selected(policy("broker")["podSelector"]) == set(SERVICES)
    assert selected(policy("names")["podSelector"]) == {*SERVICES, "migrate"}
    (rule,) = policy("ingest")["ingress"]
    assert selected(rule["from"][0]["podSelector"]) == {"worker"}
    assert ports_of([rule]) == {8080}
