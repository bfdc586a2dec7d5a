"""Events and jobs on the wire: they come back as they were, and what cannot be read is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.contracts.events import Event, UnknownEventError, event_from_json, event_to_json, payload_to_json
from shared.contracts.ids import decision_event_id
from shared.contracts.jobs import job_from_json, job_to_json
from shared.contracts.payloads import CATALOGUE, TaskScheduled
from tests.unit.contracts.examples import EXECUTION, GOLDEN, JOBS, events, golden_texts

HOW = (
    "the wire format changed: stored events and messages under way would no longer be read."
    " If that is meant, raise the version and write the files anew:"
    " python -c 'from tests.unit.contracts.examples import write_golden_files; write_golden_files()'"
)


def encoded(kind: str) -> dict[str, Any]:
    (event,) = [event for event in events() if event.type == kind]
    data: dict[str, Any] = json.loads(json.dumps(event_to_json(event)))
    return data


def test_there_is_an_example_of_every_type() -> None:
    assert {event.type for event in events()} == set(CATALOGUE)


@pytest.mark.parametrize("event", events(), ids=lambda event: event.type)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    found = event_from_json(json.loads(json.dumps(event_to_json(event))))

    assert found.payload == event.payload
    assert event_to_json(found) == event_to_json(event)
    assert (found.address, found.seq, found.identity) == (event.address, event.seq, event.identity)


def test_an_event_of_a_decision_has_the_id_of_its_place_in_the_log() -> None:
    found = encoded("step.completed")

    assert found["event_id"] == decision_event_id(EXECUTION, found["seq"])


def test_both_names_stand_beside_each_other() -> None:
    found = encoded("task.retry_scheduled")

    assert (found["type"], found["alias"], found["status"]) == ("task.retry_scheduled", "step_retry", "PENDING")
    assert (found["node"], found["retry_sequence_id"]) == ("fetch_all~2[17].fetch#3", "fetch_all~2[17].fetch")


def test_a_field_at_its_default_is_not_sent() -> None:
    assert payload_to_json(TaskScheduled("j", "http", "default")) == {"job_id": "j", "kind": "http", "pool": "default"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": 2}, "unknown version of events: 2"),
        ({"v": None}, "unknown version of events: None"),
        ({"type": "task.exploded"}, "unknown type of event: 'task.exploded'"),
        ({"node": "here and there"}, "not an address: 'here and there'"),
        ({"execution_id": None}, "not the id of an execution: None"),
        ({"occurred_at": "yesterday"}, "not a time: 'yesterday'"),
        ({"payload": {"job_id": "j", "outcome": {"status": "success"}, "mood": 1}}, "task.processed has no field mood"),
        ({"payload": {"outcome": {"status": "success"}}}, "task.processed lacks a field"),
        ({"payload": {"job_id": 3, "outcome": {"status": "success"}}}, "job_id of task.processed cannot be int"),
        ({"payload": {"job_id": "j", "outcome": "fine"}}, "outcome of task.processed cannot be str"),
        ({"payload": {"job_id": "j", "outcome": {"status": "fine"}}}, "status is success or error, not 'fine'"),
        ({"payload": ["j"]}, "the contents of task.processed are a mapping, not list"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnknownEventError) as refused:
        event_from_json({**encoded("task.processed"), **change})

    assert reason in str(refused.value)


def test_a_switch_is_no_number() -> None:
    data = encoded("task.started")
    data["payload"]["delivery_count"] = True

    with pytest.raises(UnknownEventError, match=r"delivery_count of task\.started cannot be bool"):
        event_from_json(data)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.role)
def test_a_job_comes_back_as_it_was(job: Any) -> None:
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job


@pytest.mark.parametrize("change", [{"v": 2}, {"node": "nowhere"}])
def test_a_job_of_another_version_or_without_an_address_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown version|not an address"):
        job_from_json({**job_to_json(JOBS[0]), **change})


@pytest.mark.parametrize(
    "places", ["config", [[]], ["config"], [["meta", "x"]], [["config", None]], [["config", ["x"]]], [[["config"]]], 3]
)
def test_a_job_with_places_that_are_none_is_refused(places: Any) -> None:
    with pytest.raises(ValueError, match="not the places of expressions"):
        job_from_json({**job_to_json(JOBS[0]), "deferred": places})


def test_a_job_without_places_is_sent_as_it_always_was() -> None:
    assert "deferred" not in job_to_json(JOBS[1])


@pytest.mark.parametrize("name", golden_texts())
def test_the_wire_format_is_what_it_was(name: str) -> None:
    path = GOLDEN / name

    assert path.is_file(), HOW
    assert json.loads(golden_texts()[name]) == json.loads(path.read_text(encoding="utf-8")), HOW


def test_events_that_were_stored_are_still_read() -> None:
    stored = json.loads((GOLDEN / "events_v1.json").read_text(encoding="utf-8"))

    assert [event_to_json(event_from_json(data)) for data in stored] == stored


def test_jobs_that_were_sent_are_still_read() -> None:
    sent = json.loads((GOLDEN / "jobs_v1.json").read_text(encoding="utf-8"))

    assert [job_to_json(job_from_json(data)) for data in sent] == sent
