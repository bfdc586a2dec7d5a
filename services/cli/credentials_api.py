"""Credentials over the REST interface, as commands use them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from services.cli.api import Api

PAGE = 1000


class CredentialsApi(Api):
    """A client of one server's credentials."""

    async def put(self, name: str, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Keep a credential and return what is shown of it."""
        kept: dict[str, Any] = await self._asked("PUT", _path(name), json={"kind": kind, "fields": fields})
        return kept

    async def all(self) -> list[dict[str, Any]]:
        """Return what is shown of every credential, by name."""
        out: list[dict[str, Any]] = []
        asked: dict[str, Any] = {"limit": PAGE}
        while True:
            page = await self._asked("GET", "/credentials", params=asked)
            out.extend(page["items"])
            if page["cursor"] is None:
                return out
            asked["cursor"] = page["cursor"]

    async def delete(self, name: str) -> None:
        """Delete a credential."""
        await self._asked("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/credentials/{quote(name, safe='')}"
