"""Programs by the digest of their Plan, kept as long as they are used."""

from __future__ import annotations

from collections import OrderedDict

from shared.engine.program import Program
from shared.errors import UnavailableError
from shared.language.codec import plan_from_json
from shared.store.port import Store

MAX_PROGRAMS = 512


class Programs:
    """Loads each Plan once and forgets the one that was used longest ago."""

    def __init__(self, store: Store, limit: int = MAX_PROGRAMS) -> None:
        self._store = store
        self._limit = limit
        self._known: OrderedDict[str, Program] = OrderedDict()

    async def of(self, digest: str) -> Program:
        """Return the program of a Plan."""
        found = self._known.get(digest)
        if found is not None:
            self._known.move_to_end(digest)
            return found
        plan = await self._store.plan(digest)
        if plan is None:
            raise UnavailableError(f"the Plan {digest[:12]} is not stored")
        program = Program(plan_from_json(plan))
        self._known[digest] = program
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return program
