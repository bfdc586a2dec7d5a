"""Identities: where something happened, and ids that follow from what a thing is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from uuid import UUID

NAMESPACE = UUID("6f0d7a52-3b0c-5e0e-9d3e-5a1d5e0a7c11")
_NAMESPACE_BYTES = NAMESPACE.bytes
_NODE = re.compile(
    r"(?P<step>[A-Za-z_][\w-]*)~(?P<visit>\d+)(\[(?P<iteration>\d+)\])?"
    r"(\.(?P<task>[A-Za-z_][\w-]*)(@(?P<page>\d+))?#(?P<attempt>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A place in an execution: step, visit, iteration, task, page, attempt."""

    step: str
    visit: int = 1
    iteration: int | None = None
    task: str | None = None
    page: int = 1
    attempt: int | None = None

    @property
    def frame(self) -> str:
        """Return the text of the step's run, or of the iteration, without the task."""
        run = f"{self.step}~{self.visit}"
        return run if self.iteration is None else f"{run}[{self.iteration}]"

    @property
    def node(self) -> str:
        """Return the whole address as one text, such as `fetch_all~2[17].fetch#3`."""
        if self.task is None:
            return self.frame
        return f"{self.sequence}#{self.attempt}"

    @property
    def sequence(self) -> str:
        """Return the group of attempts that this one belongs to: the address without the attempt."""
        return f"{self.frame}.{self.task}@{self.page}" if self.page > 1 else f"{self.frame}.{self.task}"


def parse_node(text: str) -> Address | None:
    """Return the address that a text names, or nothing if it names none."""
    found = _NODE.fullmatch(text)
    if found is None:
        return None
    iteration, page, attempt = found["iteration"], found["page"], found["attempt"]
    return Address(
        found["step"],
        int(found["visit"]),
        None if iteration is None else int(iteration),
        found["task"],
        int(page or 1),
        None if attempt is None else int(attempt),
    )


def derived(*parts: object) -> str:
    """Return the UUID (version 5) that follows from what a thing is about: the same parts give the same id."""
    name = "\x1f".join([str(part) for part in parts]).encode()
    found = sha1(_NAMESPACE_BYTES + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(found[16], 16) & 3]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"


def job_id(execution_id: str, address: Address) -> str:
    """Return the identity of one attempt."""
    return derived("job", execution_id, address.node)


def fact_id(about: str, kind: str) -> str:
    """Return the identity of a fact about a job or an execution."""
    return derived("fact", about, kind)


def decision_event_id(execution_id: str, seq: int) -> str:
    """Return the identity of an event that a decision wrote at this place of the log."""
    return derived("event", execution_id, seq)


def child_execution_id(job: str) -> str:
    """Return the identity of the child execution that a job starts."""
    return derived("child", job)
