"""Credentials as a worker holds them: for one job at a time, and never in anything that is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure


class CredentialError(Exception):
    """A credential cannot be had; `outcome` says why, and never what it holds."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__((outcome.error or {}).get("message"))
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Credential:
    """A stored credential: its kind says which fields it has; what it holds is never shown."""

    name: str
    kind: str
    fields: Mapping[str, Any] = field(repr=False)


class Keychain(ABC):
    """Gives credentials by name, for one job at a time."""

    @abstractmethod
    async def credential(self, name: str, job: Job) -> Credential | None:
        """Return a credential, or nothing if there is none or this job may not have it.

        Raises UnavailableError when nobody can be asked.
        """


class NoKeychain(Keychain):
    """Knows no credential."""

    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return None


class Borrowed:
    """What one job was lent, so that none of it is in anything the job says."""

    def __init__(self, keychain: Keychain, job: Job) -> None:
        self._keychain = keychain
        self._job = job
        self._lent: dict[str, Credential] = {}

    async def credential(self, auth: Any) -> Credential:
        """Return the credential that an `auth` field names, as a text or as `{type, credential}`.

        Raises CredentialError when there is none of that name for this job, or it is of another type than asked for.
        """
        name, kind = named(auth)
        found = self._lent.get(name) or await self._keychain.credential(name, self._job)
        if found is None:
            raise _unknown(name)
        self._lent[name] = found
        if kind is not None and found.kind not in (kind, kind.removesuffix("_credential")):
            raise CredentialError(failure("auth", f"the credential '{name}' is of kind {found.kind}, not {kind}"))
        return found

    async def fields(self, name: str) -> dict[str, Any] | None:
        """Return what `keychain.name` stands for in an expression; nothing if there is no such credential."""
        found = self._lent.get(name) or await self._keychain.credential(name, self._job)
        if found is None:
            return None
        self._lent[name] = found
        return dict(found.fields)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every text that was lent."""
        return tuple(text for each in self._lent.values() for text in _texts(each.fields))


async def lend_nothing(auth: Any) -> Credential:
    """Refuse every credential, for calls that were lent none."""
    raise _unknown(named(auth)[0])


def _unknown(name: str) -> CredentialError:
    return CredentialError(failure("auth", f"the credential '{name}' is not known, or not for this job"))


def named(auth: Any) -> tuple[str, str | None]:
    """Return the name, and the type if it is said, of an `auth` field; raises CredentialError."""
    fields = auth if isinstance(auth, dict) else {"credential": auth}
    name, kind = fields.get("credential", fields.get("name")), fields.get("type")
    if not isinstance(name, str) or not name:
        message = "auth is the name of a credential, or a mapping with type and credential"
        raise CredentialError(failure("auth", message))
    return name, kind if isinstance(kind, str) and kind else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and value:
        yield value
