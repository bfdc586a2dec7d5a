"""The port of the store: what services may ask of it, and what every adapter promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from shared.contracts.events import Event
from shared.errors import ConflictError, RejectedError
from shared.store.records import (
    AppendResult,
    AuditEntry,
    AuditRow,
    Beat,
    Created,
    CredentialRow,
    DeadLetter,
    DeadLetterRow,
    DecisionRecord,
    ExecutionFilter,
    ExecutionRow,
    Head,
    History,
    IteratorRow,
    JobFilter,
    JobRow,
    NewExecution,
    NewPlaybook,
    OverduePool,
    Page,
    PlaybookVersion,
    PoolLoad,
    RetryRow,
    SealedCredential,
    WorkerRow,
)


class UnknownReferenceError(RejectedError):
    """Nothing is stored under this reference."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"nothing is stored as {ref}")
        self.ref = ref


class ChangedError(ConflictError):
    """It is not as the caller saw it last."""


class Batch(ABC):
    """Executions that are locked for deciding, with everything not yet applied to them."""

    now: datetime
    executions: dict[str, Head]
    unapplied: dict[str, list[Event]]

    @abstractmethod
    async def histories(self, execution_ids: Collection[str]) -> dict[str, History]:
        """Return what the states of these executions are made of, as of this batch."""

    @abstractmethod
    async def events_after(self, execution_id: str, seq: int) -> list[Event]:
        """Return the applied events of an execution after a place of its log, as of this batch."""

    @abstractmethod
    async def result(self, ref: str) -> Any:
        """Return a stored value as `Store.result` does, without another connection."""

    @abstractmethod
    def record(self, execution_id: str, record: DecisionRecord) -> None:
        """Take up what was decided, to be written at the end; raise ConflictError unless it goes on without a gap."""


class Playbooks(ABC):
    """The catalogue."""

    @abstractmethod
    async def register(self, playbook: NewPlaybook) -> PlaybookVersion:
        """Store a playbook as the next version of its path; return the latest version if its text is the same."""

    @abstractmethod
    async def playbook(self, path: str, version: int | None = None) -> PlaybookVersion | None:
        """Return a version of a playbook, the latest unless one is named."""

    @abstractmethod
    async def plan(self, digest: str) -> dict[str, Any] | None:
        """Return the Plan with this digest, as JSON data."""

    @abstractmethod
    async def playbooks(self, limit: int = 100, cursor: str | None = None) -> Page[PlaybookVersion]:
        """Return the latest version of each playbook, by path."""

    @abstractmethod
    async def versions(self, path: str) -> list[PlaybookVersion]:
        """Return every version of a playbook, the latest first."""


class Writing(ABC):
    """How executions come to be, what is told them, and what is decided about them."""

    @abstractmethod
    async def create_executions(self, executions: Sequence[NewExecution]) -> list[Created]:
        """Store executions with their requests, all or none; a key or id that was used gives the first execution."""

    @abstractmethod
    async def append_facts(self, facts: Sequence[Event]) -> AppendResult:
        """Store facts, unapplied and each once; say which are new and which executions nobody knows."""

    @abstractmethod
    def deciding(self, execution_ids: Collection[str]) -> AbstractAsyncContextManager[Batch]:
        """Lock executions, give what is not applied to them, and at the end write all records or none.

        Another batch with one of these executions waits meanwhile. UnavailableError at the end means that the outcome
        is unknown: reload and look.
        """

    @abstractmethod
    async def put_result(self, value: Any) -> dict[str, Any]:
        """Store a value by its content, once however often it is put, and return the reference to it."""


# A job that a sweeper took is left alone for so long; whoever took it has published it by then, or has died.
TAKEN_S = 10.0


class Sweeping(ABC):
    """What is found again when something was lost; a job that is taken is given to no one else for a while."""

    @abstractmethod
    async def mark_published(self, job_ids: Collection[str]) -> None:
        """Note that jobs were handed to the broker; nothing happens to those that started already."""

    @abstractmethod
    async def extend_leases(self, worker_id: str, job_ids: Collection[str], lease_s: float) -> frozenset[str]:
        """Let a worker keep jobs for so many seconds from now, and return those that are still its own."""

    @abstractmethod
    async def take_unpublished(self, older_than_s: float, horizon_s: float, limit: int) -> list[JobRow]:
        """Take jobs committed that long ago, due within the horizon, never published, and not being published.

        Being published: a job of the same decision was published less than that long ago.
        """

    @abstractmethod
    async def take_due_within(self, horizon_s: float, limit: int) -> list[JobRow]:
        """Take jobs that were too far off to be published when they were made and are due within the horizon now."""

    @abstractmethod
    async def overdue(self, grace_s: float) -> list[OverduePool]:
        """Return, for each pool with published jobs that are overdue, what proves or disproves that they are stuck."""

    @abstractmethod
    async def take_overdue(self, pool: str, due_before: datetime, grace_s: float, limit: int) -> list[JobRow]:
        """Take published jobs of a pool that are overdue and were due before a time, in due order.

        Not those of executions with facts that are not applied: of these jobs more is known than their rows show.
        """

    @abstractmethod
    async def queued_jobs(self, job_ids: Collection[str]) -> list[JobRow]:
        """Return those of these jobs that nobody has begun."""

    @abstractmethod
    async def take_queued(self, job_ids: Collection[str], for_s: float) -> frozenset[str]:
        """Take those of these jobs that nobody has begun and that nobody took for so long; return which they are."""

    @abstractmethod
    async def retime(self, job_id: str, available_at: datetime | None, at_least_s: float) -> JobRow | None:
        """Give a job that waits another time, none for never, and forget that it was published; return it as it is now.

        It counts as taken, so that the caller can publish it. Nothing happens, and nothing is returned, if it has begun
        or is due within `at_least_s`.
        """

    @abstractmethod
    async def unserved(self, pool: str, grace_s: float, limit: int) -> list[JobRow]:
        """Return overdue jobs of a pool, in due order, of which nobody has noted that their pool is not served."""

    @abstractmethod
    async def mark_unserved(self, job_ids: Collection[str]) -> None:
        """Note of jobs, for good, that their executions know that their pool is not served."""

    @abstractmethod
    async def take_lapsed(self, silent_s: float, limit: int) -> list[JobRow]:
        """Take leased jobs whose lease ran out and whose worker was not heard of for so long."""

    @abstractmethod
    async def stale_facts(self, older_than_s: float, limit: int) -> list[str]:
        """Return executions with facts not applied for so long; of a paused one only those that ask something of it."""

    @abstractmethod
    async def outstanding(self, horizon_s: float, limit: int, cursor: str | None = None) -> Page[JobRow]:
        """Return jobs that a wiped broker must have again, in due order: queued, or begun without a lease."""

    @abstractmethod
    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Let one at a time in, of all who use this store; ConflictError after a while, if another stays."""

    @abstractmethod
    async def broker_mark(self, name: str) -> str | None:
        """Return the incarnation of a broker that was seen last."""

    @abstractmethod
    async def set_broker_mark(self, name: str, incarnation: str) -> None:
        """Remember the incarnation of a broker."""

    @abstractmethod
    async def heartbeat(self, beat: Beat) -> None:
        """Note that a worker is alive."""

    @abstractmethod
    async def workers(self, silent_s: float | None = None) -> list[WorkerRow]:
        """Return the workers, or only those heard of within so many seconds."""


class Reading(ABC):
    """What people and programs look at."""

    @abstractmethod
    async def execution(self, execution_id: str) -> ExecutionRow | None:
        """Return an execution."""

    @abstractmethod
    async def executions(
        self, wanted: ExecutionFilter | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ExecutionRow]:
        """Return executions, the newest first."""

    @abstractmethod
    async def events(
        self,
        execution_id: str,
        *,
        types: Collection[str] | None = None,
        step: str | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Event]:
        """Return events of the log after a place, in order."""

    @abstractmethod
    async def jobs(self, wanted: JobFilter | None = None, limit: int = 100, cursor: str | None = None) -> Page[JobRow]:
        """Return jobs by the time they are or were due; those without a time come last."""

    @abstractmethod
    async def job(self, job_id: str) -> JobRow | None:
        """Return a job."""

    @abstractmethod
    async def pool_loads(self) -> list[PoolLoad]:
        """Return how much every pool with jobs that are not over has to do, by name."""

    @abstractmethod
    async def result(self, ref: str) -> Any:
        """Return the value of a reference, a loop's results in order; raise UnknownReferenceError for none."""

    @abstractmethod
    async def result_bytes(self, ref: str, start: int = 0, length: int | None = None) -> tuple[bytes, int] | None:
        """Return a part of a stored value's JSON text and the size of the whole."""

    @abstractmethod
    def loop_results(self, ref: str, page: int = 1000) -> AsyncIterator[list[tuple[int, Any]]]:
        """Give the results of a loop with their places, a page at a time; what failed has none."""

    @abstractmethod
    async def iterators(self, execution_id: str) -> list[IteratorRow]:
        """Return the progress of an execution's loops."""

    @abstractmethod
    async def retries(self, execution_id: str) -> list[RetryRow]:
        """Return the progress of an execution's sequences of attempts that had more than one."""


class Credentials(ABC):
    """Sealed credentials, and who did what to them; what they hold is never known here."""

    @abstractmethod
    async def put_credential(
        self, sealed: SealedCredential, actor: str, *, seen_at: datetime | None = None, is_new: bool = False
    ) -> CredentialRow:
        """Store a credential in place of the one of that name, if any, and note who did.

        Raises ChangedError if it was not set last at `seen_at`, or if it exists although it is said to be new.
        """

    @abstractmethod
    async def delete_credential(self, name: str, actor: str, *, seen_at: datetime | None = None) -> bool:
        """Delete a credential, note who did, and say whether there was one; raises ChangedError as above."""

    @abstractmethod
    async def credential(self, name: str) -> tuple[CredentialRow, SealedCredential] | None:
        """Return a credential."""

    @abstractmethod
    async def credentials(self, limit: int = 100, cursor: str | None = None) -> Page[CredentialRow]:
        """Return credentials by name."""

    @abstractmethod
    async def sealed_otherwise(self, key_id: str, limit: int, after: str = "") -> list[SealedCredential]:
        """Return credentials that are sealed with another key, by name, those after a name."""

    @abstractmethod
    async def reseal(self, old: SealedCredential, new: SealedCredential) -> bool:
        """Put a credential sealed anew in place of the old one, unless it has changed; its times stay."""

    @abstractmethod
    async def note(self, entry: AuditEntry) -> None:
        """Write down who did what."""

    @abstractmethod
    async def noted(self, subject: str, limit: int = 100) -> list[AuditRow]:
        """Return what was done to a thing, the latest first."""


# More than so many are not kept: the oldest go first.
MAX_DEAD_LETTERS = 10_000


class DeadLetters(ABC):
    """Messages that nobody could make anything of, the newest of them."""

    @abstractmethod
    async def keep_dead_letters(self, letters: Sequence[DeadLetter]) -> int:
        """Keep dead letters, each once, in place of the oldest if there are too many; return how many are new."""

    @abstractmethod
    async def dead_letter(self, dead_letter_id: str) -> DeadLetterRow | None:
        """Return a dead letter."""

    @abstractmethod
    async def dead_letters(self, limit: int = 100, cursor: str | None = None) -> Page[DeadLetterRow]:
        """Return dead letters, the newest first."""

    @abstractmethod
    async def discard_dead_letter(self, dead_letter_id: str) -> bool:
        """Throw a dead letter away, and say whether there was one."""


class Store(Playbooks, Writing, Sweeping, Reading, Credentials, DeadLetters):
    """Everything that is kept. Errors: RejectedError, ConflictError and UnavailableError, never a driver's own."""

    @abstractmethod
    async def ping(self) -> None:
        """Return if the store can be used now; raise UnavailableError if it cannot."""

    @abstractmethod
    async def now(self) -> datetime:
        """Return the time by the clock that due times are written by."""

    @abstractmethod
    async def prepare(self, months_ahead: int = 3) -> None:
        """Make room for the months to come; harmless to repeat."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""
