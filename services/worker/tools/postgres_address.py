"""Where a Postgres database of a playbook is: read from a dsn or a credential, and never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from services.worker.keychain import Credential

SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
FIELDS = ("dsn", "host", "port", "database", "user", "password", "sslmode", "options")
_PLACES = re.compile(r"(?:(?:[^,:\[\]]*|\[[0-9a-fA-F:.%]+\])(?::[0-9]{1,5})?)(?:,(?:[^,:\[\]]+)(?::[0-9]{1,5})?)*")


class AddressError(ValueError):
    """It is not said well where the database is; the message holds nothing of what was said."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is and who asks; two that are equal share a pool. Nothing of it is shown."""

    arguments: tuple[tuple[str, Any], ...] = field(repr=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def address_of_dsn(dsn: str) -> Address:
    """Return the address that a URL names; raises AddressError."""
    try:
        parts = urlsplit(dsn)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    except ValueError:
        raise AddressError("the dsn cannot be read; it looks like postgresql://user:password@host:5432/name") from None
    if parts.scheme not in SCHEMES:
        raise AddressError("the dsn begins with none of postgresql:// and postgres://")
    login, _, place = parts.netloc.rpartition("@")
    if "@" in login:
        raise AddressError("an @ in the user or the password of a dsn is written %40")
    if not _PLACES.fullmatch(place):
        raise AddressError("the dsn names no host that can be read, or no port")
    # The driver reads no address that has a port and names its host after the question mark.
    arguments: dict[str, Any] = {"dsn": f"postgresql:{dsn.partition(':')[2]}"}
    if not place.strip(":0123456789"):
        if "host" not in query:
            raise AddressError("the dsn names no host")
        port = place.strip(":") or query.get("port", "5432")
        arguments = {"dsn": arguments["dsn"].replace(f"{place}/", "/", 1), "host": query["host"], "port": _port(port)}
    if ":" not in login and "password" not in query:
        # Never nothing: the driver would look for a password in the worker's own environment and files.
        arguments["password"] = ""
    return Address(tuple(arguments.items()))


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise AddressError("port is no port")
    return int(text)


def address_of(credential: Credential) -> Address:
    """Return the address that a credential holds, as a dsn or in parts; raises AddressError."""
    if not credential.is_of_kind("postgres"):
        raise AddressError(f"the credential '{credential.name}' is of kind {credential.kind}, not postgres")
    fields = {name: value for name, value in credential.fields.items() if value not in (None, "")}
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise AddressError(f"the credential '{credential.name}' has a field '{unknown[0]}'; known: {', '.join(FIELDS)}")
    try:
        if "dsn" in fields:
            return address_of_dsn(str(fields["dsn"]))
        return _address_of_parts(fields)
    except AddressError as problem:
        raise AddressError(f"the credential '{credential.name}': {problem}") from None


def _address_of_parts(fields: Mapping[str, Any]) -> Address:
    missing = [name for name in ("host", "user") if name not in fields]
    if missing:
        raise AddressError(f"it has no {missing[0]}")
    mode = str(fields.get("sslmode", "prefer"))
    if mode not in SSL_MODES:
        raise AddressError(f"sslmode is one of {', '.join(SSL_MODES)}")
    arguments = {
        "host": str(fields["host"]),
        "port": _port(str(fields.get("port", 5432))),
        "database": str(fields.get("database", fields["user"])),
        "user": str(fields["user"]),
        "password": str(fields.get("password", "")),
        "ssl": mode,
    }
    return Address(tuple(arguments.items()), _settings(fields.get("options")))


def _settings(options: Any) -> tuple[tuple[str, str], ...]:
    if options is None:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(name), str(value)) for name, value in options.items())
    return (("options", str(options)),)
