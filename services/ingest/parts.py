"""What the endpoints work with, made once for an application."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from fastapi import Request

from services.ingest.auth import Keys, Principal
from services.ingest.lending import Lending
from services.ingest.metrics import IngestMetrics
from services.ingest.settings import Settings
from services.ingest.wake import Waker
from shared.broker.port import Broker
from shared.errors import UnavailableError
from shared.language.codec import plan_from_json
from shared.language.plan import Plan
from shared.runtime.clock import Clock
from shared.store.port import Store

MAX_PLANS = 256


class Plans:
    """Plans by their digest, the one that was used longest ago forgotten first."""

    def __init__(self, store: Store, limit: int = MAX_PLANS) -> None:
        self._store = store
        self._limit = limit
        self._known: OrderedDict[str, Plan] = OrderedDict()

    async def of(self, digest: str) -> Plan:
        """Return a Plan that is stored."""
        found = self._known.get(digest)
        if found is None:
            stored = await self._store.plan(digest)
            if stored is None:
                raise UnavailableError(f"the Plan {digest[:12]} is not stored")
            found = plan_from_json(stored)
        self.remember(digest, found)
        return found

    def remember(self, digest: str, plan: Plan) -> None:
        """Keep a Plan at hand."""
        self._known[digest] = plan
        self._known.move_to_end(digest)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Parts:
    """Store, broker and everything made of them; `stopping` is set when answers should not wait any longer."""

    store: Store
    broker: Broker
    settings: Settings
    clock: Clock
    metrics: IngestMetrics
    keys: Keys
    waker: Waker
    plans: Plans
    lending: Lending
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def parts_of(request: Request) -> Parts:
    """Return the parts of the application that a request came to."""
    parts: Parts = request.app.state.parts
    return parts


def principal_of(request: Request) -> Principal:
    """Return who asks."""
    principal: Principal = request.state.principal
    return principal
