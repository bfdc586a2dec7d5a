"""The catalogue of playbooks in Postgres."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Row, func, insert, select
from typing_extensions import override

from shared.store.encoding import checked_text, cursor_of, parts_of
from shared.store.port import Playbooks
from shared.store.postgres.connected import Connected
from shared.store.records import NewPlaybook, Page, PlaybookVersion
from shared.store.tables import playbook as table

_SHOWN: tuple[Column[Any], ...] = tuple(table.c[name] for name in PlaybookVersion.__slots__)


class PostgresPlaybooks(Connected, Playbooks):
    """Versions by path, each text once."""

    @override
    async def register(self, playbook: NewPlaybook) -> PlaybookVersion:
        for text in (playbook.path, playbook.source, playbook.name or ""):
            checked_text(text, "the playbook")
        async with self._transaction() as connection:
            # Two that register the same path at once: the second sees the first's version.
            await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(playbook.path, 0))))
            newest = select(*_SHOWN).where(table.c.path == playbook.path).order_by(table.c.version.desc()).limit(1)
            latest = (await connection.execute(newest)).first()
            if latest is not None and latest.source == playbook.source and latest.digest == playbook.digest:
                return _version(latest)
            values = {
                "path": playbook.path,
                "version": (latest.version if latest is not None else 0) + 1,
                "name": playbook.name,
                "source": playbook.source,
                "plan": playbook.plan,
                "digest": playbook.digest,
                "labels": playbook.labels,
            }
            return _version((await connection.execute(insert(table).values(values).returning(*_SHOWN))).one())

    @override
    async def playbook(self, path: str, version: int | None = None) -> PlaybookVersion | None:
        wanted = select(*_SHOWN).where(table.c.path == path).order_by(table.c.version.desc()).limit(1)
        if version is not None:
            wanted = wanted.where(table.c.version == version)
        async with self._transaction() as connection:
            found = (await connection.execute(wanted)).first()
        return None if found is None else _version(found)

    @override
    async def plan(self, digest: str) -> dict[str, Any] | None:
        async with self._transaction() as connection:
            found = await connection.execute(select(table.c.plan).where(table.c.digest == digest).limit(1))
            plan: dict[str, Any] | None = found.scalar()
        return plan

    @override
    async def playbooks(self, limit: int = 100, cursor: str | None = None) -> Page[PlaybookVersion]:
        newer = table.alias()
        latest = select(func.max(newer.c.version)).where(newer.c.path == table.c.path).scalar_subquery()
        wanted = select(*_SHOWN).where(table.c.version == latest).order_by(table.c.path).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(table.c.path > str(parts_of(cursor, 1)[0]))
        async with self._transaction() as connection:
            found = [_version(row) for row in await connection.execute(wanted)]
        shown = found[:limit]
        return Page(shown, cursor_of(shown[-1].path) if len(found) > limit else None)

    @override
    async def versions(self, path: str) -> list[PlaybookVersion]:
        wanted = select(*_SHOWN).where(table.c.path == path).order_by(table.c.version.desc())
        async with self._transaction() as connection:
            return [_version(row) for row in await connection.execute(wanted)]


def _version(row: Row[Any]) -> PlaybookVersion:
    return PlaybookVersion(**row._mapping)
