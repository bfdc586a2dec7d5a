"""Around every request: its figures, and headers that every answer has."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.ingest.metrics import IngestMetrics
from shared.runtime.clock import Clock

_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


class Observed:
    """Counts requests by route and status, and says that nothing is to be kept unless an answer says otherwise."""

    def __init__(self, app: ASGIApp, metrics: IngestMetrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
                self._count(scope, message["status"], began)
            await send(message)

        await self._app(scope, receive, answer)

    def _count(self, scope: Scope, status: int, began: float) -> None:
        # The pattern of the route, not the address: a figure for every execution would be a figure for none.
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(scope["method"], route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(self._clock.monotonic() - began)
