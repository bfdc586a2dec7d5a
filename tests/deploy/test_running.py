"""Every command of docker-compose.yml, started with exactly its environment: one execution runs through them all."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from shared.broker.topology import EVENTS, OUTCOMES, jobs_queue
from shared.runtime.embedded_rabbit import HOST
from tests.deploy.running import Stack, running_stack
from tests.support.repository import ROOT
from tests.support.system import pause

pytestmark = pytest.mark.timeout(300)

DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/redrive.json").read_text())
PROMETHEUS = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
PLAYBOOK = """\
apiVersion: redrive.io/v1
workflow:
  - step: flaky
    tool:
      kind: python
      input: { attempt: "{{ _attempt }}" }
      code: |
        def main(attempt):
            if attempt == 1:
                raise TimeoutError("the first attempt is always too slow")
            return {"attempt": attempt}
      eval:
        - { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3, delay: 0.2 }
        - else: { do: continue }
    next: rest
  - step: rest
    tool: { kind: wait, for: 0.1 }
result: "{{ flaky.attempt }}"
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Give the running system; in the end it is asked to stop, and has to do so in good order."""
    with running_stack() as found:
        yield found
        codes = found.stop()
        assert codes == dict.fromkeys(codes, 0), found.logs()


@pytest.fixture(scope="module")
def execution(stack: Stack) -> dict[str, Any]:
    return stack.ended(PLAYBOOK)


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def series_named(exposition: str) -> set[str]:
    return set(re.findall(r"^([a-z_][a-z0-9_]*)(?:\{| )", exposition, re.M))


def rabbit_figures(stack: Stack) -> str:
    """Return what Prometheus would get of RabbitMQ, asked as its settings say."""
    (job,) = (each for each in PROMETHEUS["scrape_configs"] if each["job_name"] == "rabbitmq")
    url = f"http://{HOST}:{stack.node.figures_port}{job['metrics_path']}"
    return httpx.get(url, params=job["params"], timeout=20).text


def test_an_execution_runs_through_all_services(execution: dict[str, Any]) -> None:
    assert execution["status"] == "completed", execution
    assert execution["result"] == 2


def test_the_health_check_of_a_service_that_is_not_there_fails(stack: Stack) -> None:
    environment = {**stack.environment("worker", "worker"), "REDRIVE_HEALTH_PORT": "9"}
    _, *command = stack.found["services"]["worker"]["healthcheck"]["test"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 1
    assert "port 9 does not answer" in done.stderr


def test_a_second_worker_is_one_more_consumer(stack: Stack, execution: dict[str, Any]) -> None:
    wanted = f'rabbitmq_detailed_queue_consumers{{vhost="redrive",queue="{jobs_queue("default")}"}} 2'

    found = ""
    for _ in range(400):
        if wanted in (found := rabbit_figures(stack)):
            return
        pause()
    raise AssertionError(found)


def test_the_database_is_not_open_without_its_password(stack: Stack) -> None:
    environment = stack.environment("migrate", "migrate")
    url = environment["REDRIVE_DATABASE_URL"]
    wrong = {**environment, "REDRIVE_DATABASE_URL": re.sub(r":[^:@/]+@", ":wrong@", url)}

    done = subprocess.run(["redrive", "migrate"], env=wrong, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode != 0
    assert "password" in done.stderr


def test_migrating_again_changes_nothing(stack: Stack) -> None:
    stack.start("migrate", "migrate-again")


def test_every_figure_of_the_dashboard_is_one_that_somebody_gives(stack: Stack, execution: dict[str, Any]) -> None:
    given = {name for service in stack.ports for name in series_named(stack.figures(service))}
    given |= series_named(rabbit_figures(stack))
    wanted = {name for query in queries() for name in re.findall(r"\b(?:redrive|rabbitmq)_[a-z_]+\b", query)}

    assert len(wanted) > 15
    # A counter with labels is there once it counted; nothing was dead in this system.
    assert wanted - given <= {"redrive_ingest_dead_letters_total"}


def test_the_dashboard_shows_what_the_execution_did(stack: Stack, execution: dict[str, Any]) -> None:
    decided = stack.figures("orchestrator")

    assert re.search(r'^redrive_executions_ended_total\{status="completed"\} [1-9]', decided, re.M)
    assert re.search(r'^redrive_retries_total\{rule="eval\[0\]",type="on_error"\} [1-9]', decided, re.M)
    assert re.search(r'^redrive_retry_delay_seconds_count\{type="on_error"\} [1-9]', decided, re.M)
    assert all(f'queue="{queue}"' in rabbit_figures(stack) for queue in (EVENTS, OUTCOMES, jobs_queue("default")))


def test_prometheus_looks_where_the_services_answer(stack: Stack) -> None:
    services = stack.found["services"]
    looked = {
        each["dns_sd_configs"][0]["names"][0]: each["dns_sd_configs"][0]["port"]
        for each in PROMETHEUS["scrape_configs"]
        if "dns_sd_configs" in each
    }

    assert looked == {
        "ingest": int(services["ingest"]["environment"]["REDRIVE_PORT"]),
        "orchestrator": int(services["orchestrator"]["environment"]["REDRIVE_HEALTH_PORT"]),
        "worker": int(services["worker"]["environment"]["REDRIVE_HEALTH_PORT"]),
    }
    networks = set(services["prometheus"]["networks"])
    assert all(networks & set(services[name]["networks"]) for name in (*looked, "rabbitmq", "grafana"))


def test_the_dashboard_asks_the_source_that_is_provisioned() -> None:
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}

    assert used == {source["uid"]}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
