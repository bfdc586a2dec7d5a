"""Executions on their way in: playbook found, workload merged, stored together, woken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.ingest.auth import Principal
from services.ingest.catalogue import register
from services.ingest.models import ExecutionRequest
from services.ingest.parts import Parts
from services.ingest.problems import ErrorItem, Problem
from shared.contracts.payloads import ExecutionRequested
from shared.engine.decide import requested
from shared.engine.workload import merged_workload
from shared.language.plan import Plan
from shared.runtime.ids import new_id
from shared.store.records import Created, NewExecution


@dataclass(frozen=True, slots=True)
class Submission:
    """A request, the key that makes it the same request when it comes again, and its place in the body."""

    request: ExecutionRequest
    key: str | None
    at: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The execution that answers a submission."""

    execution_id: str
    existed: bool
    path: str
    version: int | None
    conflict: ErrorItem | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The playbook that a request means."""

    path: str
    version: int
    digest: str
    plan: Plan


async def submit(parts: Parts, submissions: Sequence[Submission], who: Principal) -> list[Accepted]:
    """Store executions, all or none, and have them woken; a key that was used before gives the first execution."""
    known: dict[tuple[str | None, int | None, str | None], Found] = {}
    new = []
    for submission in submissions:
        request = submission.request
        wanted = (request.path, request.version, request.playbook)
        if wanted not in known:
            known[wanted] = await _found(parts, submission)
        new.append(_execution(parts, submission, known[wanted], who))
    created = await parts.store.create_executions(new)
    parts.waker.wake(item.execution_id for item in created)
    parts.metrics.submitted.inc(sum(not item.existed for item in created))
    return [await _accepted(parts, *each) for each in zip(submissions, new, created, strict=True)]


async def _found(parts: Parts, submission: Submission) -> Found:
    request = submission.request
    if request.playbook is not None:
        made = await register(parts, request.playbook, is_inline=True, at=_field(submission, "playbook"))
        return Found(made.version.path, made.version.version, made.version.digest, made.plan)
    assert request.path is not None
    found = await parts.store.playbook(request.path, request.version)
    if found is None:
        version = f" in version {request.version}" if request.version is not None else ""
        message = f"there is no playbook '{request.path}'{version}"
        raise Problem(404, message, errors=[ErrorItem(path=_field(submission, "path"), message=message)])
    return Found(found.path, found.version, found.digest, await parts.plans.of(found.digest))


def _execution(parts: Parts, submission: Submission, found: Found, who: Principal) -> NewExecution:
    request = submission.request
    said = ExecutionRequested(
        plan=found.digest,
        workload=merged_workload(found.plan, request.workload),
        labels=dict(request.labels),
        requested_by=who.name,
        idempotency_key=submission.key,
    )
    fact = requested(new_id(parts.clock.now()), said, source=f"api:{who.name}")
    return NewExecution(fact, found.path, found.version)


async def _accepted(parts: Parts, submission: Submission, new: NewExecution, created: Created) -> Accepted:
    """Return what became of a submission; its conflict, if its key was used before for something else."""
    conflict = None
    row = await parts.store.execution(created.execution_id) if created.existed else None
    if row is not None and (row.path != new.path or row.labels != dict(submission.request.labels)):
        message = f"the idempotency key was used for another request: execution {created.execution_id} of '{row.path}'"
        conflict = ErrorItem(path=_field(submission, "idempotency_key"), message=message)
    return Accepted(created.execution_id, created.existed, new.path, new.version, conflict)


def _field(submission: Submission, name: str) -> str:
    return f"{submission.at}.{name}" if submission.at else name
