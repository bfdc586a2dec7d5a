"""Credentials as a worker holds them: for one job at a time, and never in anything that is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from shared.contracts.credentials import kind_of, secret_texts
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure
from shared.errors import UnavailableError


class CredentialError(Exception):
    """A credential cannot be had; `outcome` says why, and never what it holds."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__((outcome.error or {}).get("message"))
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Credential:
    """A stored credential: its kind says which fields it has; what it holds is never shown.

    One that stands for another, such as a token for the client it was given to, says of which kind that is, and
    which texts of it are secret.
    """

    name: str
    kind: str
    fields: Mapping[str, Any] = field(repr=False)
    stands_for: str | None = None
    also_secret: tuple[str, ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every text that must not be shown."""
        return (*secret_texts(self.kind, self.fields), *self.also_secret)

    def is_of_kind(self, word: str) -> bool:
        """Say whether this is what a playbook calls by that word."""
        asked = kind_of(word) or word
        return asked in (self.kind, self.stands_for)


class Keychain(ABC):
    """Gives credentials by name, for one job at a time."""

    @abstractmethod
    async def credential(self, name: str, job: Job) -> Credential | None:
        """Return a credential, or nothing if there is none or this job may not have it.

        Raises UnavailableError when nobody can be asked, and CredentialError where more is to be said.
        """

    async def refused(self, credential: Credential, job: Job) -> None:  # noqa: B027
        """Take note that a credential was not accepted where it was used: it may have changed."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections; nothing is asked any more."""


class NoKeychain(Keychain):
    """Knows no credential."""

    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return None


class Borrowed:
    """What one job was lent, so that none of it is in anything the job says."""

    def __init__(
        self, keychain: Keychain, job: Job, hide_in_logs: Callable[[Iterable[str]], None] | None = None
    ) -> None:
        self._keychain = keychain
        self._job = job
        self._hide_in_logs = hide_in_logs
        self._lent: dict[str, Credential] = {}

    async def credential(self, auth: Any) -> Credential:
        """Return the credential that an `auth` field names, as a text or as `{type, credential}`.

        Raises CredentialError when there is none of that name for this job, or it is of another type than asked for.
        """
        name, kind = named(auth)
        found = await self._found(name)
        if found is None:
            raise _unknown(name)
        if kind is not None and not found.is_of_kind(kind):
            raise CredentialError(failure("auth", f"the credential '{name}' is of kind {found.kind}, not {kind}"))
        return found

    async def fields(self, name: str) -> dict[str, Any] | None:
        """Return what `keychain.name` stands for in an expression; nothing if there is no such credential."""
        found = await self._found(name)
        return None if found is None else dict(found.fields)

    async def judge(self, outcome: Outcome) -> None:
        """Tell the keychain if what it lent was not accepted."""
        error = outcome.error or {}
        if "auth" in (error.get("kind"), (error.get("details") or {}).get("cause")):
            for credential in self._lent.values():
                await self._keychain.refused(credential, self._job)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every text that was lent and must not be shown."""
        return tuple(text for each in self._lent.values() for text in each.secrets)

    async def _found(self, name: str) -> Credential | None:
        if name in self._lent:
            return self._lent[name]
        try:
            found = await self._keychain.credential(name, self._job)
        except UnavailableError as problem:
            message = f"the credential '{name}' could not be asked for: {str(problem)[:300]}"
            raise CredentialError(failure("connection", message)) from None
        if found is not None:
            self._lent[name] = found
            if self._hide_in_logs is not None:
                self._hide_in_logs(found.secrets)
        return found


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
