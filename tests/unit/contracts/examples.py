"""One example of every event and of every kind of job, for the files that guard the wire format."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event, event_to_json
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.jobs import Job, job_to_json

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
EXECUTION = "0198c0de-0000-7000-8000-000000000001"
STEP = Address("fetch_all", 2)
TASK = Address("fetch_all", 2, 17, "fetch", 1, 3)
PAGE = Address("fetch_all", 2, None, "fetch", 4, 1)
JOB = job_id(EXECUTION, TASK)
ERROR = {"kind": "server_error", "message": "HTTP 503", "retryable": True, "code": 503, "status": 503}
RULE = {"rule": "eval[0]", "text": "{{ outcome.status == 'error' }}", "line": 9, "value": True, "reads": {}}
RECORD = {"rules": [RULE], "matched": "eval[0]", "directive": "retry", "attempts": {"used": 2, "allowed": 5}}
ARC = {"step": "b", "value": True, "text": "always", "token": 5}
PARENT = {"execution_id": "e0", "job_id": "j0", "node": "a~1.a#1"}
HTTP = {"status": 503, "headers": {"retry-after": "3"}}
DELAY = {"seconds": 4.0, "backoff": "exponential", "base": 2.0, "factor": 2.0, "capped": False, "jitter": 1.0}
REFERENCE = {"_ref": "sha256:ab", "_size": 70000, "_sha256": "ab", "_preview": "["}

PAYLOADS: tuple[tuple[p.Payload, Address | None], ...] = (
    (p.ExecutionRequested("9f2c", {"n": 1}, PARENT, {"team": "x"}, "ann", "key-1"), None),
    (p.ExecutionStarted("start", "t1"), None),
    (p.StepStarted((1, 2), {"n": 1}, (3,), "fetch_all~1", 3, "t2"), STEP),
    (p.StepSkipped((4,), "join", (3,), 3, {"rules": [RULE], "directive": "skip"}), STEP),
    (p.TaskScheduled(JOB, "http", "default", AT.isoformat(), 0.5, 5, "go", ("x is undefined",)), PAGE),
    (p.TaskStarted(JOB, "w1", 2, {"attempt": 3, "max_attempts": 5, "is_retry": True}, AT.isoformat()), TASK),
    (p.TaskProcessed(JOB, {"status": "error", "result": None, "error": ERROR, "meta": {}, "http": HTTP}), TASK),
    (
        p.TaskRetryScheduled(
            JOB, 2, 3, 5, 4.0, DELAY, AT.isoformat(), "HTTP 503", "http", "on_success", "go", "append", REFERENCE,
            {"params": {"page": 2}}, {"iter": {"page": 2}}, RECORD,
        ),
        TASK,
    ),
    (p.TaskRetryExhausted(5, 5, "budget", "jump", 60.0, 61.5, "HTTP 503", RECORD), TASK),
    (p.TaskAdvanced("jump", {"ctx": {"a": 1}}, "fetch", "fetch:eval[1]", ERROR, RECORD), TASK),
    (p.TaskSequenceCompleted(4, 4, "append", REFERENCE, "items"), TASK),
    (p.LoopStarted("item", 100, "parallel", 5, 10, 2, REFERENCE, [0, 2], "errors"), STEP),
    (p.IterationStarted(17, 18, {"id": 17}), Address("fetch_all", 2, 17)),
    (p.IterationCompleted(17, [1, 2]), Address("fetch_all", 2, 17)),
    (p.IterationFailed(17, ERROR), Address("fetch_all", 2, 17)),
    (p.LoopCompleted(100, 100, 98, 2, 0.98, REFERENCE, [{"index": 17, **ERROR}]), STEP),
    (p.StepCompleted(REFERENCE, {"ctx": {"a": 1}}, {"fetch": 1}, {"total": 1, "failed": 0}, [ERROR]), STEP),
    (p.StepFailed(ERROR, True, "fetch_all~2.fetch#3", {"fetch": None}), STEP),
    (p.NextEvaluated("step.completed", "inclusive", (ARC,), 6, (3, 6), {"ctx": {"a": 1}}), STEP),
    (p.ExecutionCompleted({"n": 1}), None),
    (p.ExecutionFailed(ERROR, "fetch_all", "fetch_all~2.fetch#3"), None),
    (p.ExecutionCancelled("ann", "enough"), None),
    (p.ExecutionPaused("ann", "wait"), None),
    (p.ExecutionResumed("ann", "go on"), None),
    (p.ExecutionRedriven("failed", ("fetch_all",), "ann", "again", {"n": 2}, "77aa", "t3"), None),
    (p.ControlRequested("redrive", "ann", "again", "fetch_all", {"n": 2}, "77aa"), None),
    (p.TimerElapsed("t2"), STEP),
    (p.JobPoisoned(JOB, "delivery limit", 6), TASK),
    (p.SignalReceived("go", {"n": 1}), None),
    (p.BreakerOpened("api", 5, AT.isoformat()), None),
    (p.BreakerHalfOpened("api"), None),
    (p.BreakerClosed("api"), None),
    (p.BudgetDenied("api", 10.0, 11.0), None),
    (p.LoopClaimed(10, 20, 10, REFERENCE), Address("fetch_all", 2, None, "claim", 3, 1)),
    (p.JobRepublished(JOB, "overdue, and overtaken by a later job", 2.5), TASK),
    (p.JobRescheduled(JOB, "2024-05-01T12:00:00+00:00", "2024-05-01T13:00:00+00:00", "ada", "sooner"), TASK),
    (p.JobWaiting(JOB, "gpu", "2024-05-01T12:00:00+00:00", "no worker serves the pool"), TASK),
)  # fmt: skip

SECRET = {"$template": "{{ keychain.api.token }}", "$scope": {}}
JOBS = (
    Job(JOB, EXECUTION, TASK, "http"),
    Job(
        job_id=JOB,
        execution_id=EXECUTION,
        address=PAGE,
        kind="http",
        config={"url": "http://api", "params": {"page": 2}},
        input={"n": 1},
        sink={"kind": "postgres", "config": {"table": "rows"}},
        pool="gpu",
        available_at=AT,
        delay_s=4.0,
        timeout_s=30.0,
        max_attempts=5,
        select=("id", "total"),
        meta={"retry": {"type": "on_error", "attempt_number": 2, "max_attempts": 5}},
        role="signal",
    ),
    Job(
        job_id=JOB,
        execution_id=EXECUTION,
        address=TASK,
        kind="http",
        config={"headers": [{"$template": "Bearer {{ token }}", "$scope": {"token": SECRET}}]},
        input={"token": SECRET, "like": SECRET},
        deferred=(("config", "headers", 0), ("config", "headers", 0, "$scope", "token"), ("input", "token")),
    ),
    Job("t2", EXECUTION, STEP, "timer", {"timeout_s": 60.0}, pool="orchestrator", available_at=AT, role="timer"),
)


def events() -> list[Event]:
    """Return an event of every type, every field of it set."""
    return [
        Event(
            execution_id=EXECUTION,
            payload=payload,
            address=address,
            seq=seq,
            event_id=fact_id(JOB, payload.type) if payload.type in p.FACTS else None,
            parent_event_id=fact_id(JOB, "parent") if seq % 2 else None,
            retry_sequence_id=address.sequence if address is not None and address.task else None,
            occurred_at=AT,
            source="worker:w1" if payload.type in p.FACTS else "orchestrator",
            meta={"trace": {"traceparent": "00-1-2-01"}} if seq % 3 == 0 else {},
        )
        for seq, (payload, address) in enumerate(PAYLOADS, start=1)
    ]


def golden_texts() -> dict[str, str]:
    """Return what the golden files hold."""
    return {
        "events_v1.json": _text([event_to_json(event) for event in events()]),
        "jobs_v1.json": _text([job_to_json(job) for job in JOBS]),
    }


def write_golden_files() -> None:
    """Write the golden files anew; only for a change of the wire format that is meant."""
    GOLDEN.mkdir(exist_ok=True)
    for name, text in golden_texts().items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


def _text(items: list[dict[str, Any]]) -> str:
    return json.dumps(items, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
