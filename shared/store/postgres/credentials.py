"""Credentials and the audit in Postgres."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Row, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection
from typing_extensions import override

from shared.store.encoding import checked_text, cursor_of, parts_of
from shared.store.port import ChangedError, Credentials
from shared.store.postgres.connected import Connected
from shared.store.records import AuditEntry, AuditRow, CredentialRow, Page, SealedCredential
from shared.store.tables import audit
from shared.store.tables import credential as table

_SHOWN: tuple[Column[Any], ...] = tuple(table.c[name] for name in CredentialRow.__slots__)
_SEALED: tuple[Column[Any], ...] = tuple(table.c[name] for name in SealedCredential.__slots__)


class PostgresCredentials(Connected, Credentials):
    """Sealed credentials by name."""

    @override
    async def put_credential(
        self, sealed: SealedCredential, actor: str, *, seen_at: datetime | None = None, is_new: bool = False
    ) -> CredentialRow:
        checked_text(sealed.name, "the name")
        async with self._transaction() as connection:
            found = (await connection.execute(_put(sealed, seen_at, is_new).returning(*_SHOWN))).first()
            if found is None:
                raise ChangedError(f"the credential '{sealed.name}' is not as it was")
            await _note(connection, AuditEntry(actor, "credential.set", sealed.name, {"kind": sealed.kind}))
        return _row(found)

    @override
    async def delete_credential(self, name: str, actor: str, *, seen_at: datetime | None = None) -> bool:
        gone = delete(table).where(table.c.name == name)
        if seen_at is not None:
            gone = gone.where(table.c.updated_at == seen_at)
        async with self._transaction() as connection:
            found = (await connection.execute(gone.returning(table.c.name))).first()
            if found is None and seen_at is not None:
                raise ChangedError(f"the credential '{name}' is not as it was")
            if found is not None:
                await _note(connection, AuditEntry(actor, "credential.deleted", name))
        return found is not None

    @override
    async def credential(self, name: str) -> tuple[CredentialRow, SealedCredential] | None:
        columns: tuple[Column[Any], ...] = (*_SHOWN, table.c.sealed)
        wanted = select(*columns).where(table.c.name == name)
        async with self._transaction() as connection:
            found = (await connection.execute(wanted)).first()
        if found is None:
            return None
        return _row(found), SealedCredential(found.name, found.kind, found.sealed, found.key_id)

    @override
    async def credentials(self, limit: int = 100, cursor: str | None = None) -> Page[CredentialRow]:
        wanted = select(*_SHOWN).order_by(table.c.name.collate("C")).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(table.c.name.collate("C") > str(parts_of(cursor, 1)[0]))
        async with self._transaction() as connection:
            found = [_row(row) for row in await connection.execute(wanted)]
        shown = found[:limit]
        return Page(shown, cursor_of(shown[-1].name) if len(found) > limit else None)

    @override
    async def sealed_otherwise(self, key_id: str, limit: int, after: str = "") -> list[SealedCredential]:
        order = table.c.name.collate("C")
        wanted = select(*_SEALED).where(table.c.key_id != key_id, order > after).order_by(order).limit(limit)
        async with self._transaction() as connection:
            return [SealedCredential(**row._mapping) for row in await connection.execute(wanted)]

    @override
    async def reseal(self, old: SealedCredential, new: SealedCredential) -> bool:
        change = update(table).where(table.c.name == old.name, table.c.sealed == old.sealed)
        change = change.values(sealed=new.sealed, key_id=new.key_id)
        async with self._transaction() as connection:
            return (await connection.execute(change.returning(table.c.name))).first() is not None

    @override
    async def note(self, entry: AuditEntry) -> None:
        async with self._transaction() as connection:
            await _note(connection, entry)

    @override
    async def noted(self, subject: str, limit: int = 100) -> list[AuditRow]:
        wanted = select(audit).where(audit.c.subject == subject).order_by(audit.c.position.desc()).limit(limit)
        async with self._transaction() as connection:
            rows = (await connection.execute(wanted)).all()
        return [AuditRow(AuditEntry(row.actor, row.action, row.subject, row.details), row.occurred_at) for row in rows]


def _put(sealed: SealedCredential, seen_at: datetime | None, is_new: bool) -> Any:
    value = {"kind": sealed.kind, "sealed": sealed.sealed, "key_id": sealed.key_id}
    changed = {**value, "updated_at": func.clock_timestamp()}
    if seen_at is not None:
        return update(table).where(table.c.name == sealed.name, table.c.updated_at == seen_at).values(changed)
    made = upsert(table).values(name=sealed.name, **value)
    if is_new:
        return made.on_conflict_do_nothing(index_elements=[table.c.name])
    return made.on_conflict_do_update(index_elements=[table.c.name], set_=changed)


async def _note(connection: AsyncConnection, entry: AuditEntry) -> None:
    values = {
        "actor": checked_text(entry.actor, "the actor"),
        "action": entry.action,
        "subject": checked_text(entry.subject, "the subject"),
        "details": entry.details,
    }
    await connection.execute(insert(audit).values(values))


def _row(row: Row[Any]) -> CredentialRow:
    return CredentialRow(row.name, row.kind, row.key_id, row.created_at, row.updated_at)
