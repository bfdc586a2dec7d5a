"""Play a playbook on simulated time: given a text and outcomes, look at the log."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from shared.contracts.events import Event
from shared.contracts.jobs import Job, job_to_json
from shared.contracts.outcomes import Outcome, failure, http_failure, success
from shared.contracts.payloads import Payload
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.rehearsal import START, Rehearsal, Rehearsed, Reply
from shared.engine.replay import replay
from shared.engine.snapshot import restore, snapshot
from shared.engine.state import State
from shared.engine.stimuli import Command
from shared.engine.turn import Decision
from shared.language.compile import compile_playbook

Answer: TypeAlias = Outcome | Reply
Answers: TypeAlias = Answer | Sequence[Answer] | Callable[[Job], Answer]
P = TypeVar("P", bound=Payload)

ROOT = "e1"
HEAD = "apiVersion: {api}\nkind: Playbook\nmetadata: {{ name: test }}\n"
BUSY = http_failure(503, "503 Service Unavailable")
DOWN = failure("connection", "Connection refused")


def program(text: str, api: str = "redrive.io/v1") -> Program:
    """Return the program of a playbook; a text that begins with its steps gets a head."""
    text = textwrap.dedent(text).strip("\n")
    if text.startswith("- "):
        text = "workflow:\n" + textwrap.indent(text, "  ")
    if "apiVersion" not in text:
        text = HEAD.format(api=api) + text
    compiled = compile_playbook(text)
    assert compiled.plan is not None, "\n".join(str(item) for item in compiled.errors)
    return Program(compiled.plan)


def page(items: Sequence[Any], **more: Any) -> Outcome:
    """Return the answer of an HTTP call whose body holds items."""
    return body({"data": list(items), **more})


def body(data: Any, status: int = 200) -> Outcome:
    """Return the answer of an HTTP call."""
    result = {"status_code": status, "headers": {}, "body": data, "data": data, "url": "http://api", "elapsed": 0.1}
    return success(result, http={"status": status, "headers": {}})


def takes(seconds: float, outcome: Outcome) -> Reply:
    """Return an outcome that takes its time."""
    return Reply(outcome, seconds)


class Played:
    """An execution that was played: its log, its state, its jobs."""

    def __init__(self, rehearsal: Rehearsal, root: Rehearsed, *, is_replayable: bool = True) -> None:
        self.rehearsal = rehearsal
        self.root = root
        self._is_replayable = is_replayable

    @property
    def log(self) -> list[Event]:
        """Return the log so far."""
        return self.root.log

    @property
    def state(self) -> State:
        """Return the state so far."""
        return self.root.state

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs asked for so far."""
        return self.root.jobs

    @property
    def status(self) -> str:
        """Return how the execution stands."""
        return self.state.status

    @property
    def result(self) -> Any:
        """Return the result of the execution."""
        return self.state.result

    @property
    def error(self) -> dict[str, Any]:
        """Return why the execution failed."""
        assert self.state.failure is not None
        error: dict[str, Any] = self.state.failure["error"]
        return error

    def aliases(self, *only: str) -> list[str]:
        """Return the older names of the events in order, all or some of them."""
        return aliases(self.log, *only)

    def nodes(self, alias: str) -> list[str]:
        """Return where the events of one name happened."""
        return [node(event) for event in self.log if event.alias == alias]

    def said(self, kind: type[P]) -> list[P]:
        """Return the contents of all events of one type."""
        return [event.payload for event in self.log if isinstance(event.payload, kind)]

    def events(self, alias: str) -> list[Event]:
        """Return the events of one name."""
        return [event for event in self.log if event.alias == alias]

    def steps(self) -> list[str]:
        """Return the steps that ran, in order."""
        return [node(event).partition("~")[0] for event in self.log if event.alias == "step_started"]

    def asked(self, task: str) -> list[Job]:
        """Return the jobs of one task."""
        return [job for job in self.jobs if job.address.task == task]

    def at(self, event: Event) -> float:
        """Return when an event occurred, in seconds since the start."""
        assert event.occurred_at is not None
        return (event.occurred_at - START).total_seconds()

    def tell(self, stimulus: Event | Command) -> Decision:
        """Give a stimulus to the execution now."""
        return self.rehearsal.tell(ROOT, stimulus)

    def go_on(self, seconds: float | None = None) -> Played:
        """Let time pass: some seconds, or until nothing is due; then check what always holds."""
        until = None if seconds is None else self.rehearsal.now + timedelta(seconds=seconds)
        self.rehearsal.run(until)
        self.check()
        return self

    def check(self) -> None:
        """Check what holds for every log: no gaps, the fold is the state, a replay decides the same."""
        for found in self.rehearsal.executions.values():
            assert [event.seq for event in found.log] == list(range(1, len(found.log) + 1))
            state = State(found.state.execution_id)
            for event in found.log:
                evolve(state, event)
            assert snapshot(state) == snapshot(found.state)
            assert restore(json.loads(json.dumps(snapshot(state)))) == found.state
            assert all(job.delay_s >= 0 and json.dumps(job_to_json(job)) for job in found.jobs)
            if self._is_replayable:
                assert [str(item) for item in replay(found.program, found.log, self.rehearsal.values)] == []


def play(
    text: str | Program,
    outcomes: Mapping[str, Answers] | Callable[[Job], Answer] | None = None,
    *,
    workload: dict[str, Any] | None = None,
    playbooks: Mapping[str, str] | None = None,
    api: str = "redrive.io/v1",
    env: Mapping[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
    start: datetime = START,
    run_for: float | None = None,
) -> Played:
    """Run a playbook to its end, or for some seconds, with outcomes by task (`task` or `step.task`), given in order."""
    respond = outcomes if callable(outcomes) else _responder(outcomes or {})
    children = {path: program(child, api) for path, child in (playbooks or {}).items()}
    rehearsal = Rehearsal(respond, playbooks=children, start=start, env=env)
    rehearsal.values.by_ref.update(values or {})
    root = rehearsal.submit(program(text, api) if isinstance(text, str) else text, workload, ROOT)
    return Played(rehearsal, root, is_replayable=env is None).go_on(run_for)


def _responder(outcomes: Mapping[str, Answers]) -> Callable[[Job], Answer]:
    left = {name: list(answers) if isinstance(answers, Sequence) else answers for name, answers in outcomes.items()}

    def respond(job: Job) -> Answer:
        task, step = str(job.address.task), job.address.step
        for name in (f"{step}.{task}", task, step):
            found = left.get(name)
            if found is None:
                continue
            if callable(found):
                return found(job)
            if isinstance(found, list):
                assert found, f"no outcome is left for {job.address.node}"
                return found.pop(0)
            return found
        return success()

    return respond


def aliases(log: Sequence[Event], *only: str) -> list[str]:
    """Return the older names of events in order, all or some of them."""
    return [event.alias for event in log if not only or event.alias in only]


def node(event: Event) -> str:
    """Return where an event happened."""
    return event.address.node if event.address is not None else ""
