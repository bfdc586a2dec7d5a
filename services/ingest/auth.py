"""Who may ask for what: bearer keys, kept as hashes, with scopes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from services.ingest.problems import Problem

Scope = Literal["read", "run", "admin", "worker"]
SCOPES: tuple[Scope, ...] = ("read", "run", "admin", "worker")
SHORTEST_SECRET = 16
KNOWN_SECRETS = frozenset({"changeme", "secret", "password", "token", "dev", "test", "changemechangeme"})

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_MARK = "__redrive_access__"


@dataclass(frozen=True, slots=True)
class Key:
    """A key: who has it, what it allows, and the hash of its secret."""

    name: str
    scopes: frozenset[Scope]
    digest: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks."""

    name: str
    scopes: frozenset[Scope]

    def may(self, wanted: frozenset[Scope]) -> bool:
        """Say whether one of the wanted scopes is there; `admin` stands for all."""
        return "admin" in self.scopes or bool(self.scopes & wanted)


@dataclass(frozen=True, slots=True)
class Access:
    """What an endpoint asks of its callers: one of these scopes, and a body of the usual size or of a result's."""

    scopes: frozenset[Scope]
    takes_results: bool = False


ANYONE = Principal("dev", frozenset(SCOPES))


class KeyFormatError(ValueError):
    """A key is not written as `name:scope+scope:secret`; the secret is not repeated here."""


class Keys:
    """The keys that are known; without any, in dev mode, everybody may do everything."""

    def __init__(self, keys: Iterable[Key], *, is_open: bool) -> None:
        self._by_digest: Mapping[str, Key] = {key.digest: key for key in keys}
        self._is_open = is_open and not self._by_digest

    def admit(self, authorization: str | None, access: Access) -> Principal:
        """Return who asks; raise the problem that says why not."""
        if self._is_open:
            return ANYONE
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise _unauthorised("a key is needed: 'Authorization: Bearer <key>'")
        key = self._by_digest.get(hashed(secret.strip()))
        if key is None:
            raise _unauthorised("the key is not known")
        principal = Principal(key.name, key.scopes)
        if not principal.may(access.scopes):
            needed = " or ".join(sorted({*access.scopes, "admin"}))
            raise Problem(403, f"the key '{key.name}' may not do this; it needs the scope {needed}")
        return principal


def needs(*scopes: Scope, takes_results: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint with the scopes of which its callers need one."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _MARK, Access(frozenset(scopes), takes_results))
        return endpoint

    return mark


def access_of(endpoint: Callable[..., Any]) -> Access | None:
    """Return what an endpoint was marked with; nothing, if it is for everybody."""
    found: Access | None = getattr(endpoint, _MARK, None)
    return found


def hashed(secret: str) -> str:
    """Return the form in which a secret is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True)
class ParsedKeys:
    """Keys that were written down, and what is wrong with the others."""

    keys: list[Key] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse_keys(text: str, *, is_dev: bool = False) -> ParsedKeys:
    """Return the keys of a text, one per line or separated by commas, each as `name:scope+scope:secret`."""
    out = ParsedKeys()
    entries = [entry.strip() for line in text.splitlines() for entry in line.split(",")]
    for number, entry in enumerate((each for each in entries if each and not each.startswith("#")), start=1):
        try:
            out.keys.append(_parsed(entry, is_dev))
        except KeyFormatError as problem:
            out.problems.append(f"key {number}: {problem}")
    for name in sorted({key.name for key in out.keys if sum(other.name == key.name for other in out.keys) > 1}):
        out.problems.append(f"the name '{name}' is used for more than one key")
    return out


def _parsed(entry: str, is_dev: bool) -> Key:
    name, _, rest = entry.partition(":")
    words, _, secret = rest.partition(":")
    if not name or not words or not secret:
        raise KeyFormatError("expected name:scope+scope:secret")
    unknown = sorted(set(words.split("+")) - set(SCOPES))
    if unknown:
        raise KeyFormatError(f"'{unknown[0]}' is no scope; there are {', '.join(SCOPES)}")
    if not is_dev and (len(secret) < SHORTEST_SECRET or secret.lower() in KNOWN_SECRETS):
        raise KeyFormatError(
            f"the secret of '{name}' is shorter than {SHORTEST_SECRET} characters, or one everybody knows"
        )
    return Key(name, frozenset(scope for scope in SCOPES if scope in words.split("+")), hashed(secret))


def _unauthorised(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="redrive"'})
