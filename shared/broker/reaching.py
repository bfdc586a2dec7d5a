"""Waiting for the broker when a service starts before it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from shared.errors import UnavailableError
from shared.runtime.logs import Log

if TYPE_CHECKING:
    from shared.broker.rabbit import RabbitBroker

PAUSE_S = 1.0

_log = Log("redrive.broker")


async def reach(url: str, name: str, stop: asyncio.Event) -> RabbitBroker | None:
    """Return the broker as soon as it can be reached, or nothing if the service is asked to stop before."""
    # Loaded only here: a process of all services with a broker in memory needs none of it.
    from shared.broker.rabbit import RabbitBroker
    from shared.broker.rabbit_link import RabbitSettings

    while not stop.is_set():
        try:
            return await RabbitBroker.connect(RabbitSettings(url, name=name))
        except UnavailableError as problem:
            _log.warning("broker_not_reached", name=name, reason=str(problem)[:300], again_in_s=PAUSE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PAUSE_S)
    return None
