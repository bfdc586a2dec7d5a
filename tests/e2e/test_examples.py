"""Every example is run by the command in its header, and ends as its header says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.example_headers import Header, examples, header_of
from tests.support.http_server import Answer, Request, answer_json
from tests.support.postgres import execute, fetch, finished
from tests.support.repository import ROOT, shown
from tests.support.standing import Standing, served, shop_database, standing_system

pytestmark = pytest.mark.timeout(240)

FILES = examples()
# What each example is there to show, as it is in the log: older names of events, in this order.
STORIES = {
    "approval": ["action_queued", "step_failed_terminal", "next_evaluated", "step_started", "playbook_completed"],
    "bill": ["action_completed", "step_completed", "playbook_completed"],
    "children": ["iterator_started", "iteration_completed", "iterator_completed", "playbook_completed"],
    "compensation": ["step_retry", "step_retry", "step_retry_exhausted", "step_failed_terminal", "step_started"],
    "duckdb_report": ["iterator_started", "iteration_completed", "iteration_completed", "iterator_completed"],
    "fallback": ["step_retry", "step_retry_exhausted", "task_advanced", "action_completed", "step_completed"],
    "fan_out_join": ["next_evaluated", "step_started", "step_started", "step_started", "playbook_completed"],
    "loop_tolerated": ["step_retry", "step_retry_exhausted", "iterator_completed", "step_completed"],
    "noetl_policy": ["action_error", "step_retry", "action_error", "step_retry", "action_completed"],
    "noetl_retry": ["action_error", "step_retry", "action_completed", "step_retry", "retry_sequence_completed"],
    "pagination_cursor": ["action_completed", "task_advanced", "action_error", "step_retry", "action_completed"],
    "pagination_on_success": ["action_completed", "step_retry", "action_error", "retry_sequence_completed"],
    "polling": ["action_completed", "task_advanced", "action_completed", "task_advanced", "action_completed"],
    "python_transform": ["action_completed", "action_error", "step_retry", "action_completed"],
    "resume": ["iterator_started", "step_retry_exhausted", "iterator_completed", "execution_failed"],
    "retry": ["action_error", "step_retry", "action_error", "step_retry", "action_completed", "step_completed"],
    "retry_after": ["action_error", "step_retry", "action_error", "step_retry", "action_completed"],
    "sink_file": ["action_completed", "step_retry", "retry_sequence_completed", "step_completed", "action_completed"],
    "tour": ["step_retry", "retry_sequence_completed", "iterator_completed", "playbook_completed"],
}
# These want a database, or a service that changes; each has a test of its own below.
PREPARED = {"claims", "pagination_jump"}


@pytest.fixture(scope="module")
def system() -> Iterator[Standing]:
    with standing_system() as found:
        yield found


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with shop_database() as url:
        yield url


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_how_it_is_run_and_how_it_ends(path: Path) -> None:
    header = header_of(path)

    assert header.shows
    assert header.run.startswith(f"redrive run {shown(path)}")
    assert header.ends.startswith(("completed with ", "failed at "))
    assert path.stem in STORIES.keys() | PREPARED


def test_there_are_at_least_twelve_examples() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in PREPARED], ids=lambda path: path.stem)
def test_an_example_ends_as_its_header_says(system: Standing, tmp_path: Path, path: Path) -> None:
    header = header_of(path)

    found = system.run(*_elsewhere(header.words, tmp_path))

    if header.ends.startswith("failed at "):
        assert (found["code"], found["status"]) == (3, "failed")
        (failed,) = system.events(found["execution_id"], "execution.failed")
        assert header.ends.startswith(f"failed at {failed['payload']['step']},")
    else:
        assert (found["code"], found["status"], found["result"]) == (0, "completed", header.result), found
    assert in_order(STORIES[path.stem], system.aliases(found["execution_id"]))


def test_the_pages_of_a_cursor_are_in_the_file_once_each(system: Standing, tmp_path: Path) -> None:
    words = header_of(ROOT / "examples" / "pagination_cursor.yaml").words

    system.run(*_elsewhere(words, tmp_path))

    lines = (tmp_path / "redrive_items.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["pen", "ink", "cup", "map", "key"]


def test_a_redrive_runs_only_the_elements_that_failed(system: Standing) -> None:
    healed: list[bool] = []

    def answer(request: Request) -> Answer:
        who = request.path.rpartition("/")[2]
        return Answer(503) if who == "eve" and not healed else answer_json({"to": who})

    with served(answer) as api:
        found = system.run(str(ROOT / "examples" / "resume.yaml"), "--set", f"api_url={api.url}")
        assert (found["code"], len(api.requests)) == (3, 4)
        healed.append(True)
        system.client.post(f"/executions/{found['execution_id']}:redrive").raise_for_status()
        again = system.ended(found["execution_id"], after="execution_redriven")
        called = [request.path for request in api.requests]

    assert (again["status"], again["result"]) == ("completed", ["ann", "eve", "ida"])
    assert called[4:] == ["/notify/eve"]
    assert len({request.headers["idempotency-key"] for request in api.requests}) == 3


def test_an_answer_ends_the_waiting(system: Standing) -> None:
    playbook = (ROOT / "examples" / "approval.yaml").read_text(encoding="utf-8")
    execution = system.submit(playbook)

    system.client.post(f"/executions/{execution}/signals/approve", json={"payload": {"by": "ann"}}).raise_for_status()

    assert system.ended(execution)["result"] == "approved by ann"
    assert in_order(["signal_received", "step_completed", "playbook_completed"], system.aliases(execution))


def test_pages_by_number_are_stored_one_after_the_other(system: Standing, database: str, tmp_path: Path) -> None:
    header = header_of(ROOT / "examples" / "pagination_jump.yaml")
    finished(execute(database, header.needs))
    failed: list[int] = []

    def answer(request: Request) -> Answer:
        page = int(request.query["page"][0])
        if page == 2 and not failed:
            failed.append(page)
            return Answer(503)
        return answer_json({"users": [{"id": page}], "paging": {"page": page, "hasMore": page < 3}})

    with served(answer) as api:
        found = system.run(*prepared(header, tmp_path, api.url, database))

    assert (found["status"], found["result"]) == ("completed", header.result), found
    assert [row["id"] for row in finished(fetch(database, "SELECT id FROM users ORDER BY id"))] == [1, 2, 3]
    assert [request.query["page"][0] for request in api.requests] == ["1", "2", "2", "3"]


def test_claimed_rows_are_sent_until_none_is_left(system: Standing, database: str, tmp_path: Path) -> None:
    header = header_of(ROOT / "examples" / "claims.yaml")
    finished(execute(database, header.needs))

    def answer(request: Request) -> Answer:
        return Answer(404) if request.path == "/orders/3" else answer_json({"took": request.json["customer"]})

    with served(answer) as api:
        found = system.run(*prepared(header, tmp_path, api.url, database))

    assert (found["status"], found["result"]) == ("completed", header.result), found
    sent = finished(fetch(database, "SELECT id FROM orders WHERE sent_at IS NOT NULL ORDER BY id"))
    assert [row["id"] for row in sent] == [1, 2, 4]
    assert in_order(
        ["iterator_claimed", "iteration_completed", "iterator_completed"], system.aliases(found["execution_id"])
    )


def prepared(header: Header, folder: Path, api_url: str, database: str) -> list[str]:
    """Return the command of an example with the servers of the test in place of those it names."""
    (folder / "dsn").write_text(database, encoding="utf-8")
    words = [re.sub(r"@\w+\.dsn$", f"@{folder / 'dsn'}", word) for word in header.words]
    return [word.replace("http://127.0.0.1:9000", api_url) for word in words]


def in_order(wanted: list[str], found: list[str]) -> bool:
    """Say whether all that is wanted was found in this order, whatever stands between."""
    left = iter(found)
    return all(item in left for item in wanted)


def _elsewhere(words: list[str], folder: Path) -> list[str]:
    """Return a command that writes into a folder of the test; where the examples are is left as it is."""
    return [word if word.startswith(str(ROOT)) else word.replace("/tmp/", f"{folder}/") for word in words]
