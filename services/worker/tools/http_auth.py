"""Credentials of HTTP calls: the headers that each kind stands for, and which headers are nobody else's business."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.worker.keychain import Credential, CredentialError
from shared.contracts.outcomes import failure

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
IDEMPOTENCY_KEY = "Idempotency-Key"
_TELLING = re.compile(r"auth|cookie|credential|key|password|secret|session|signature|token", re.I)


@dataclass(frozen=True, slots=True)
class Lent:
    """What a credential adds to a call: headers, and texts beside its own that must not be shown."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)


def headers_of(credential: Credential) -> Lent:
    """Return the headers of a credential; raises CredentialError for one that HTTP has no use for."""
    fields = credential.fields
    match credential.kind:
        case "bearer":
            lent = Lent({"Authorization": f"Bearer {_text(credential, 'token')}"})
        case "basic":
            user, password = _text(credential, "user", "username"), _text(credential, "password")
            lent = basic(user, password)
        case "header" if isinstance(fields.get("headers"), Mapping):
            lent = Lent({str(name): str(value) for name, value in fields["headers"].items()})
        case "header":
            lent = Lent({_text(credential, "name"): _text(credential, "value")})
        case other:
            raise _unfit(credential, f"is of kind {other}; http takes bearer, basic and header")
    if not lent.headers or not all(is_header(name, value) for name, value in lent.headers.items()):
        raise _unfit(credential, "holds what HTTP does not allow in a header")
    return lent


def basic(user: str, password: str) -> Lent:
    """Return the header of a user with a password."""
    encoded = base64.b64encode(f"{user}:{password}".encode(errors="replace")).decode("ascii")
    return Lent({"Authorization": f"Basic {encoded}"}, (encoded,))


def is_header(name: str, value: str) -> bool:
    """Say whether HTTP allows this header."""
    return HEADER_NAME.fullmatch(name) is not None and HEADER_VALUE.fullmatch(value) is not None


def is_for_the_origin_alone(name: str, lent: Lent) -> bool:
    """Say whether a header stays behind when a call is sent on to another origin."""
    if name.lower() == IDEMPOTENCY_KEY.lower():
        return False
    return _TELLING.search(name) is not None or name.lower() in {each.lower() for each in lent.headers}


def _text(credential: Credential, *names: str) -> str:
    for name in names:
        found: Any = credential.fields.get(name)
        if isinstance(found, str) and found:
            return found
    raise _unfit(credential, f"has no {' or '.join(names)}")


def _unfit(credential: Credential, why: str) -> CredentialError:
    return CredentialError(failure("auth", f"the credential '{credential.name}' {why}"))
