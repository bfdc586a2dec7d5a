"""A client of our own API, for the services and commands that call it."""

from __future__ import annotations

import ssl

import httpx


def api_client(url: str, token: str | None, *, answer_s: float, connect_s: float) -> httpx.AsyncClient:
    """Return a client that shows the token with every request; nothing of the surroundings has a say."""
    return httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=httpx.Timeout(answer_s, connect=connect_s),
        verify=_trusted(url),
        trust_env=False,
    )


def _trusted(url: str) -> bool | ssl.SSLContext:
    """Return whom to trust: reading the certificates takes a while, so a plain address goes without and trusts none."""
    return True if httpx.URL(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
