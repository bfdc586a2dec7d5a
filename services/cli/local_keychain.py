"""Credentials named on the command line: held in memory, for this run alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from services.worker.keychain import Credential, Keychain
from shared.contracts.credentials import BadCredentialError, checked_fields
from shared.contracts.jobs import Job
from shared.errors import RejectedError

FORMS = "postgresql://…, amqp://…, bearer:TOKEN, basic:USER:PASSWORD or header:NAME:VALUE"


class LocalKeychain(Keychain):
    """Knows some credentials, and asks another keychain for all others."""

    def __init__(self, known: Mapping[str, Credential], others: Keychain) -> None:
        self._known = known
        self._others = others

    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return self._known.get(name) or await self._others.credential(name, job)

    @override
    async def refused(self, credential: Credential, job: Job) -> None:
        if credential.name not in self._known:
            await self._others.refused(credential, job)

    @override
    async def close(self) -> None:
        await self._others.close()


def credential_of(name: str, text: str) -> Credential:
    """Return the credential that a text stands for; raises RejectedError, which never repeats the text."""
    scheme, _, rest = text.partition(":")
    kind, fields = _read(scheme.lower(), rest, text)
    if kind is None:
        raise RejectedError(f"the credential '{name}' is none of {FORMS}")
    try:
        return Credential(name, kind, checked_fields(kind, fields))
    except BadCredentialError as problem:
        raise RejectedError(f"the credential '{name}': {problem}") from None


def _read(scheme: str, rest: str, text: str) -> tuple[str | None, dict[str, Any]]:
    match scheme:
        case "postgresql" | "postgres":
            return "postgres", {"dsn": text}
        case "amqp" | "amqps":
            return "rabbitmq", {"url": text}
        case "bearer":
            return "bearer", {"token": rest.strip()}
        case "basic":
            user, _, password = rest.partition(":")
            return "basic", {"user": user, "password": password}
        case "header":
            header, _, value = rest.partition(":")
            return "header", {"name": header.strip(), "value": value.strip()}
    return None, {}
