"""Definitions that a RabbitMQ node starts with: a template that names secrets, filled with their hashes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from shared.errors import RejectedError

PASSWORD_FROM = "password_from"
OPTIONAL = "optional"
HASHING = "rabbit_password_hashing_sha256"
SALT_BYTES = 4
SHORTEST_PASSWORD = 16
# A password stands in an amqp:// address, too, and must mean the same there.
_PASSWORD = re.compile(r"[A-Za-z0-9._~-]+")


def filled(template: str, secret: Callable[[str], str], salt: Callable[[int], bytes]) -> str:
    """Return the definitions with a hash for each password; raises RejectedError, never with a password in it.

    `secret` returns the password of a name, or nothing. A user that is optional and has none is left out.
    """
    found = _read(template)
    passwords = {user["name"]: secret(user[PASSWORD_FROM]) for user in found["users"]}
    left_out = {user["name"] for user in found["users"] if user.get(OPTIONAL) and not passwords[user["name"]]}
    users = [user for user in found["users"] if user["name"] not in left_out]
    if problems := [said for user in users for said in _problems(user[PASSWORD_FROM], passwords[user["name"]])]:
        raise RejectedError("; ".join(problems))
    found["users"] = [_user(user, password_hash(passwords[user["name"]], salt(SALT_BYTES))) for user in users]
    found["permissions"] = [each for each in found["permissions"] if each["user"] not in left_out]
    return json.dumps(found, indent=2) + "\n"


def password_names(template: str) -> list[str]:
    """Return the names of the secrets that a template asks for; raises RejectedError."""
    return [user[PASSWORD_FROM] for user in _read(template)["users"]]


def password_hash(password: str, salt: bytes) -> str:
    """Return a password as RabbitMQ keeps it."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _read(template: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found = json.loads(template)
        named = all(isinstance(user["name"], str) and isinstance(user[PASSWORD_FROM], str) for user in found["users"])
        known = {user["name"] for user in found["users"]} >= {each["user"] for each in found["permissions"]}
    except (ValueError, KeyError, TypeError):
        named = known = False
    if not named or not known:
        raise RejectedError(
            f"the template is no JSON object with users, each with a name and '{PASSWORD_FROM}', and their permissions"
        )
    return found


def _user(user: dict[str, Any], hashed: str) -> dict[str, Any]:
    rest = {key: value for key, value in user.items() if key not in (PASSWORD_FROM, OPTIONAL)}
    return {**rest, "password_hash": hashed, "hashing_algorithm": HASHING}


def _problems(name: str, password: str) -> list[str]:
    if not password:
        return [f"{name} (or {name}_FILE) is not set"]
    if len(password) < SHORTEST_PASSWORD:
        return [f"{name} is shorter than {SHORTEST_PASSWORD} characters"]
    if not _PASSWORD.fullmatch(password):
        return [f"{name} has other characters than letters, digits and . _ ~ -, and would break addresses"]
    return []
