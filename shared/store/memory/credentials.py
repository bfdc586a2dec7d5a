"""Credentials and the audit in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from typing_extensions import override

from shared.store.encoding import checked_text, cursor_of, json_text, parts_of
from shared.store.memory.kept import Memory, copied
from shared.store.port import ChangedError, Credentials
from shared.store.records import AuditEntry, AuditRow, CredentialRow, Page, SealedCredential


class MemoryCredentials(Memory, Credentials):
    """Sealed credentials by name."""

    @override
    async def put_credential(
        self, sealed: SealedCredential, actor: str, *, seen_at: datetime | None = None, is_new: bool = False
    ) -> CredentialRow:
        checked_text(sealed.name, "the name")
        before = self._credentials.get(sealed.name)
        if (is_new and before) or (seen_at is not None and (before is None or before[0].updated_at != seen_at)):
            raise ChangedError(f"the credential '{sealed.name}' is not as it was")
        now = self._now()
        if before is not None:
            # A clock may stand still; what changed has another time all the same.
            now = max(now, before[0].updated_at + timedelta(microseconds=1))
        row = CredentialRow(sealed.name, sealed.kind, sealed.key_id, before[0].created_at if before else now, now)
        self._credentials[sealed.name] = (row, sealed)
        await self.note(AuditEntry(actor, "credential.set", sealed.name, {"kind": sealed.kind}))
        return row

    @override
    async def delete_credential(self, name: str, actor: str, *, seen_at: datetime | None = None) -> bool:
        before = self._credentials.get(name)
        if seen_at is not None and (before is None or before[0].updated_at != seen_at):
            raise ChangedError(f"the credential '{name}' is not as it was")
        if before is None:
            return False
        del self._credentials[name]
        await self.note(AuditEntry(actor, "credential.deleted", name))
        return True

    @override
    async def credential(self, name: str) -> tuple[CredentialRow, SealedCredential] | None:
        return self._credentials.get(name)

    @override
    async def credentials(self, limit: int = 100, cursor: str | None = None) -> Page[CredentialRow]:
        after = "" if cursor is None else str(parts_of(cursor, 1)[0])
        names = sorted(name for name in self._credentials if name > after)
        shown = [self._credentials[name][0] for name in names[:limit]]
        return Page(shown, cursor_of(shown[-1].name) if len(names) > limit else None)

    @override
    async def sealed_otherwise(self, key_id: str, limit: int, after: str = "") -> list[SealedCredential]:
        names = sorted(name for name, (row, _) in self._credentials.items() if row.key_id != key_id and name > after)
        return [self._credentials[name][1] for name in names[:limit]]

    @override
    async def reseal(self, old: SealedCredential, new: SealedCredential) -> bool:
        before = self._credentials.get(old.name)
        if before is None or before[1] != old:
            return False
        self._credentials[old.name] = (replace(before[0], key_id=new.key_id), new)
        return True

    @override
    async def note(self, entry: AuditEntry) -> None:
        json_text(entry.details, "the details")
        self._audit.append(AuditRow(replace(entry, details=copied(entry.details)), self._now()))

    @override
    async def noted(self, subject: str, limit: int = 100) -> list[AuditRow]:
        return [row for row in reversed(self._audit) if row.entry.subject == subject][:limit]
