"""Lending credentials to jobs: who may have which, what is sealed opened, and that it is written down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from services.ingest.problems import Problem, not_found
from shared.contracts.credentials import kind_of
from shared.contracts.ids import parse_node
from shared.contracts.references import is_reference
from shared.language.lending import chosen_in, may_be_chosen, named_by
from shared.language.plan import Plan
from shared.runtime.clock import Clock
from shared.runtime.sealing import Keyring, SealError
from shared.store.port import Store
from shared.store.records import OVER, AuditEntry, ExecutionRow, JobRow

UNDER_WAY = ("queued", "leased")
# One entry per asker, credential and playbook in this time says who uses what, and keeps the audit readable.
NOTED_AGAIN_S = 300.0
MAX_NOTED = 10_000
NO_KEY = "no key for credentials is configured; set REDRIVE_CREDENTIAL_KEYS, 'redrive credentials key' makes one"


@dataclass(frozen=True, slots=True)
class Lent:
    """A credential opened for one job."""

    name: str
    kind: str
    fields: dict[str, Any] = field(repr=False)


class Lending:
    """Gives a credential to a job that is under way and whose task names it."""

    def __init__(
        self, store: Store, plan_of: Callable[[str], Awaitable[Plan]], keyring: Keyring | None, clock: Clock
    ) -> None:
        self._store = store
        self._plan_of = plan_of
        self._keyring = keyring
        self._clock = clock
        self._noted: OrderedDict[tuple[str, ...], float] = OrderedDict()

    @property
    def keyring(self) -> Keyring:
        """Return the keys; raise the problem that there are none."""
        if self._keyring is None:
            raise Problem(409, NO_KEY)
        return self._keyring

    async def lend(self, name: str, job_id: str, actor: str) -> Lent:
        """Return a credential, opened, and note who got it; raise the problem that says why not."""
        keyring = self.keyring
        job, execution = await self._under_way(job_id)
        plan = await self._plan_of(execution.plan_digest)
        entry = next((each for each in plan.keychain if each.name == name), None)
        found = await self._store.credential((entry.credential if entry is not None else None) or name)
        if not await self._is_named(name, job, plan):
            if found is not None:
                await self._note(actor, "credential.refused", found[0].name, job, execution)
            raise Problem(403, f"the task '{job.node}' does not name the credential '{name}'")
        if found is None:
            raise not_found(f"credential '{name}'")
        row, sealed = found
        wanted = kind_of(entry.kind) if entry is not None and entry.kind else None
        if wanted is not None and wanted != row.kind:
            raise Problem(409, f"the credential '{row.name}' is of kind {row.kind}; the playbook needs {wanted}")
        try:
            fields = keyring.open(row.name, row.kind, sealed.key_id, sealed.sealed)
        except SealError as problem:
            raise Problem(409, str(problem)) from None
        await self._note(actor, "credential.lent", row.name, job, execution)
        return Lent(name, row.kind, fields)

    async def _under_way(self, job_id: str) -> tuple[JobRow, ExecutionRow]:
        job = await self._store.job(job_id)
        execution = None if job is None else await self._store.execution(job.execution_id)
        if job is None or execution is None:
            raise not_found(f"job '{job_id}'")
        if job.role != "task" or job.status not in UNDER_WAY or execution.status in OVER:
            raise Problem(409, f"the job '{job_id}' is not under way")
        return job, execution

    async def _is_named(self, name: str, job: JobRow, plan: Plan) -> bool:
        address = parse_node(job.node)
        if address is None:
            return False
        named = named_by(plan, address.step, address.task)
        if name in named.names:
            return True
        if not named.is_left_open or not may_be_chosen(plan, name):
            return False
        config, sink = job.message.get("config"), job.message.get("sink")
        if isinstance(config, dict) and is_reference(config):
            config = await self._store.result(config["_ref"])
        return name in chosen_in(config) | chosen_in((sink or {}).get("config"))

    async def _note(self, actor: str, action: str, name: str, job: JobRow, execution: ExecutionRow) -> None:
        key, now = (actor, action, name, execution.path), self._clock.monotonic()
        if key in self._noted and now < self._noted[key] + NOTED_AGAIN_S:
            return
        details = {"job_id": job.job_id, "execution_id": job.execution_id, "node": job.node, "path": execution.path}
        await self._store.note(AuditEntry(actor, action, name, details))
        self._noted[key] = now
        self._noted.move_to_end(key)
        while len(self._noted) > MAX_NOTED:
            self._noted.popitem(last=False)
