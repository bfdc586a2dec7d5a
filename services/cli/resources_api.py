"""What a server has, over the REST interface: one thing, many things page by page, something asked of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from services.cli.api import Api

PAGE = 200
LOG_PAGE = 1000


class ResourcesApi(Api):
    """A client of one server's resources."""

    async def get(self, path: str, /, **params: Any) -> Any:
        """Return what is at an address; parameters that are nothing are left out."""
        return await self._asked("GET", path, params=_said(params))

    async def post(self, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
        """Ask something of a thing and return the answer."""
        headers = {"Idempotency-Key": key} if key else {}
        return await self._asked("POST", path, json=_said(body or {}), headers=headers)

    async def log(self, execution_id: str, limit: int, after: int = 0, **filters: Any) -> list[dict[str, Any]]:
        """Return the first events of a log after a place, as many pages as it takes."""
        out: list[dict[str, Any]] = []
        at: int | None = after
        while at is not None and len(out) < limit:
            page = min(LOG_PAGE, limit - len(out))
            found = await self.get(f"/executions/{execution_id}/events", after=at, limit=page, **filters)
            out.extend(found["items"])
            at = found["after"]
        return out

    async def listed(self, path: str, limit: int, /, **params: Any) -> list[dict[str, Any]]:
        """Return the first items of a list, as many pages as it takes."""
        out: list[dict[str, Any]] = []
        async for page in self._pages(path, limit, params):
            out.extend(page)
        return out[:limit]

    async def _pages(self, path: str, limit: int, params: dict[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
        cursor: str | None = None
        left = limit
        while left > 0:
            page = await self.get(path, limit=min(PAGE, left), cursor=cursor, **params)
            yield page["items"]
            left -= len(page["items"])
            cursor = page["cursor"]
            if cursor is None:
                return


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
