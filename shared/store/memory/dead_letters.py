"""Dead letters in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from typing_extensions import override

from shared.store.encoding import checked_uuid, cursor_of, time_and_id
from shared.store.memory.kept import Memory
from shared.store.port import MAX_DEAD_LETTERS, DeadLetters
from shared.store.records import DeadLetter, DeadLetterRow, Page


class MemoryDeadLetters(Memory, DeadLetters):
    """Dead letters by their identity."""

    @override
    async def keep_dead_letters(self, letters: Sequence[DeadLetter]) -> int:
        new = {letter.dead_letter_id: letter for letter in letters if letter.dead_letter_id not in self._dead_letters}
        for identity, letter in new.items():
            self._dead_letters[identity] = DeadLetterRow(letter, self._now())
        newest = sorted(self._dead_letters.values(), key=_place, reverse=True)[:MAX_DEAD_LETTERS]
        self._dead_letters = {row.letter.dead_letter_id: row for row in newest}
        return len(new)

    @override
    async def dead_letter(self, dead_letter_id: str) -> DeadLetterRow | None:
        return self._dead_letters.get(checked_uuid(dead_letter_id, "dead_letter_id"))

    @override
    async def dead_letters(self, limit: int = 100, cursor: str | None = None) -> Page[DeadLetterRow]:
        found = sorted(self._dead_letters.values(), key=_place, reverse=True)
        if cursor is not None:
            place = time_and_id(cursor)
            found = [row for row in found if _place(row) < place]
        shown = found[:limit]
        return Page(shown, cursor_of(*_place(shown[-1])) if len(found) > limit else None)

    @override
    async def discard_dead_letter(self, dead_letter_id: str) -> bool:
        return self._dead_letters.pop(checked_uuid(dead_letter_id, "dead_letter_id"), None) is not None


def _place(row: DeadLetterRow) -> tuple[datetime, str]:
    return row.died_at, row.letter.dead_letter_id
