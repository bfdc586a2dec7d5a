"""Dead letters in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Row, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from typing_extensions import override

from shared.store.encoding import checked_uuid, cursor_of, time_and_id
from shared.store.port import MAX_DEAD_LETTERS, DeadLetters
from shared.store.postgres.connected import Connected
from shared.store.records import DeadLetter, DeadLetterRow, Page
from shared.store.tables import dead_letter as table

_FIELDS = tuple(field.name for field in fields(DeadLetter))
_COLUMNS = tuple(table.c[name] for name in (*_FIELDS, "died_at"))
_NEWEST = (table.c.died_at.desc(), table.c.dead_letter_id.desc())


class PostgresDeadLetters(Connected, DeadLetters):
    """Dead letters by their identity."""

    @override
    async def keep_dead_letters(self, letters: Sequence[DeadLetter]) -> int:
        if not letters:
            return 0
        rows = [{name: getattr(letter, name) for name in _FIELDS} for letter in letters]
        added = insert(table).values(rows).on_conflict_do_nothing().returning(table.c.dead_letter_id)
        oldest = select(table.c.dead_letter_id).order_by(*_NEWEST).offset(MAX_DEAD_LETTERS)
        async with self._transaction() as connection:
            new = len(list(await connection.execute(added)))
            await connection.execute(delete(table).where(table.c.dead_letter_id.in_(oldest)))
        return new

    @override
    async def dead_letter(self, dead_letter_id: str) -> DeadLetterRow | None:
        identity = checked_uuid(dead_letter_id, "dead_letter_id")
        async with self._transaction() as connection:
            found = (await connection.execute(select(*_COLUMNS).where(table.c.dead_letter_id == identity))).first()
        return None if found is None else _row(found)

    @override
    async def dead_letters(self, limit: int = 100, cursor: str | None = None) -> Page[DeadLetterRow]:
        query = select(*_COLUMNS).order_by(*_NEWEST).limit(limit + 1)
        if cursor is not None:
            query = query.where(tuple_(table.c.died_at, table.c.dead_letter_id) < time_and_id(cursor))
        async with self._transaction() as connection:
            found = [_row(row) for row in await connection.execute(query)]
        shown = found[:limit]
        more = len(found) > limit
        return Page(shown, cursor_of(shown[-1].died_at, shown[-1].letter.dead_letter_id) if more else None)

    @override
    async def discard_dead_letter(self, dead_letter_id: str) -> bool:
        mine = table.c.dead_letter_id == checked_uuid(dead_letter_id, "dead_letter_id")
        async with self._transaction() as connection:
            gone = await connection.execute(delete(table).where(mine).returning(table.c.dead_letter_id))
            return gone.first() is not None


def _row(found: Row[Any]) -> DeadLetterRow:
    values = found._mapping
    return DeadLetterRow(DeadLetter(**{name: values[name] for name in _FIELDS}), found.died_at)
