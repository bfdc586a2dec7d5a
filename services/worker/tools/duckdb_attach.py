"""Databases that SQL on DuckDB reaches besides its own: files of its own and of SQLite, and servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field

from services.worker.keychain import Credential
from services.worker.sinks.file_places import Places
from services.worker.tools.configs import BadConfigError, Config, bad_config
from services.worker.tools.port import Call
from shared.contracts.outcomes import failure

MEMORY = ":memory:"
FILE_TYPES = ("duckdb", "sqlite")
POSTGRES = ("postgres", "postgresql", "postgres_credential")
# Fields of a credential, and what libpq calls them.
_KEYWORDS = {
    "host": "host", "port": "port", "database": "dbname", "user": "user", "password": "password", "sslmode": "sslmode",
}  # fmt: skip


class Attach(Config):
    """A database to attach first: a file, or what a credential says."""

    path: str | None = Field(default=None, validation_alias=AliasChoices("path", "database"))
    as_: str = Field(validation_alias=AliasChoices("as", "alias"), min_length=1)
    type: str | None = Field(default=None, pattern=r"^[a-z][a-z_0-9]*$")
    auth: Any = Field(default=None, validation_alias=AliasChoices("auth", "credential", "connection"))
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Attached:
    """A database to attach; one that is no file has an address that is not to be shown."""

    path: str = field(repr=False)
    name: str
    type: str | None
    read_only: bool
    file: Path | None

    def as_json(self) -> dict[str, Any]:
        """Return what the process is told."""
        return {"path": self.path, "as": self.name, "type": self.type, "read_only": self.read_only}


async def attached_of(wanted: Attach, places: Places, call: Call) -> Attached:
    """Return a database to attach; raises BadConfigError, PlaceError or CredentialError."""
    kind, path = wanted.type, wanted.path
    if (path is None) == (wanted.auth is None):
        raise bad_config("duckdb", f"attach: '{wanted.as_}' needs either path or auth")
    if wanted.auth is not None:
        credential = await call.credential(wanted.auth)
        kind = kind or _type_of(credential)
        path = server_of(credential) if kind == "postgres" else file_of(credential)
    assert path is not None
    kind = "postgres" if kind == "postgresql" else kind
    file = None
    if (kind is None or kind in FILE_TYPES) and path != MEMORY:
        file = places.of(path)
        path = str(file)
    return Attached(path, wanted.as_, kind, wanted.read_only, file)


def file_of(credential: Credential) -> str:
    """Return the file that a credential names; raises BadConfigError."""
    found = credential.fields.get("database") or credential.fields.get("path")
    if not isinstance(found, str):
        raise BadConfigError(failure("auth", f"the credential '{credential.name}' has no field database"))
    return found


def server_of(credential: Credential) -> str:
    """Return the address of a Postgres server as libpq reads it; raises BadConfigError."""
    fields: Mapping[str, Any] = credential.fields
    if fields.get("dsn"):
        return str(fields["dsn"])
    if not fields.get("host"):
        raise BadConfigError(failure("auth", f"the credential '{credential.name}' has neither dsn nor host"))
    return " ".join(
        f"{word}={_value(fields[name])}" for name, word in _KEYWORDS.items() if fields.get(name) not in (None, "")
    )


def _type_of(credential: Credential) -> str | None:
    if credential.kind in POSTGRES:
        return "postgres"
    return credential.kind if credential.kind in FILE_TYPES else None


def _value(value: Any) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
