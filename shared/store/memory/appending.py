"""How executions, facts and commands get into memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.contracts.events import Event
from shared.store.encoding import body_of
from shared.store.memory.kept import Kept, KeptExecution, Memory, copied
from shared.store.records import AppendResult, Created, ExecutionRow, NewExecution
from shared.store.rows import execution_row, fact_row, requested_of


class MemoryAppending(Memory):
    """Submissions, facts, commands, results."""

    async def create_executions(self, executions: Sequence[NewExecution]) -> list[Created]:
        """Store executions with their requests, all or none."""
        for item in executions:
            execution_row(item)
        return [self._create(item, self._now()) for item in executions]

    async def append_facts(self, facts: Sequence[Event]) -> AppendResult:
        """Store facts, unapplied and each once."""
        rows = [fact_row(fact) for fact in facts]
        return self._append([Kept(row, self._now()) for row in rows])

    async def put_result(self, value: Any) -> dict[str, Any]:
        """Store a value by its content."""
        body = body_of(value)
        ref = body.reference["_ref"]
        self._results.setdefault(ref, body)
        self._references[ref] = self._references.get(ref, 0) + 1
        return body.reference

    def _append(self, facts: Sequence[Kept]) -> AppendResult:
        new: set[str] = set()
        unknown: set[str] = set()
        for kept in facts:
            execution = self._executions.get(kept.row.execution_id)
            if execution is None:
                unknown.add(kept.row.execution_id)
            elif kept.row.event_id not in self._event_ids:
                self._event_ids.add(kept.row.event_id)
                occurred = kept.row.occurred_at or kept.stored_at
                execution.unapplied[kept.row.event_id] = Kept(kept.row._replace(occurred_at=occurred), kept.stored_at)
                new.add(kept.row.event_id)
        return AppendResult(frozenset(new), frozenset(unknown))

    def _create(self, item: NewExecution, now: datetime) -> Created:
        identity, path, version, plan, _, parent, key = execution_row(item)
        if key is not None and key in self._keys:
            return Created(self._keys[key], existed=True)
        if identity in self._executions:
            return Created(identity, existed=True)
        said = requested_of(item)
        self._executions[identity] = KeptExecution(
            ExecutionRow(
                execution_id=identity,
                path=path,
                playbook_version=version,
                plan_digest=plan,
                status="new",
                version=0,
                labels=copied(said.labels),
                parent_execution_id=parent,
                idempotency_key=key,
                failure=None,
                result=None,
                retries=0,
                steps_started=0,
                steps_ended=0,
                created_at=now,
                started_at=None,
                finished_at=None,
                updated_at=now,
            )
        )
        if key is not None:
            self._keys[key] = identity
        self._append([Kept(fact_row(item.requested), now)])
        return Created(identity, existed=False)
