"""Sealing what is stored secretly: AES-GCM with a key of a ring, bound to the name and kind it was sealed for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.errors import RejectedError

KEY_BYTES = 32
KEY_FILE = "credential.keys"
_NONCE_BYTES = 12
_FORM = b"\x01"
# 32 random bytes have about 30 different values; fewer than this were typed, not drawn.
_FEWEST_VALUES = 16


class SealError(RejectedError):
    """What was sealed cannot be opened: its key is not on the ring, or it is not what was sealed."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key; its id says which it is and nothing else."""

    secret: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Return a short name of the key, derived from it."""
        return hashlib.sha256(b"redrive credential key " + self.secret).hexdigest()[:12]


class Keyring:
    """Keys by their id: the first one seals, every one opens."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.key_id: key for key in keys}
        if not self._keys:
            raise ValueError("a keyring has at least one key")

    @property
    def active_id(self) -> str:
        """Return the id of the key that seals."""
        return next(iter(self._keys))

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Return the ids of the keys that open."""
        return tuple(self._keys)

    def seal(self, name: str, kind: str, fields: dict[str, Any]) -> bytes:
        """Return the fields of a credential, sealed with the active key; the same twice is never the same text."""
        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        cipher = AESGCM(self._keys[self.active_id].secret)
        return _FORM + nonce + cipher.encrypt(nonce, text, _bound_to(name, kind))

    def open(self, name: str, kind: str, key_id: str, sealed: bytes) -> dict[str, Any]:
        """Return the fields of a credential; raises SealError."""
        key = self._keys.get(key_id)
        if key is None:
            raise SealError(f"the credential '{name}' was sealed with the key {key_id}, which is not configured")
        if sealed[:1] != _FORM:
            raise SealError(f"the credential '{name}' is stored in a form that this release does not know")
        nonce, text = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            found: dict[str, Any] = json.loads(AESGCM(key.secret).decrypt(nonce, text, _bound_to(name, kind)))
        except (InvalidTag, ValueError):
            raise SealError(f"the stored credential '{name}' is not what was sealed; set it again") from None
        return found


def _bound_to(name: str, kind: str) -> bytes:
    return json.dumps(["redrive.credential", 1, name, kind]).encode()


def new_key() -> str:
    """Return a fresh key as it is written down."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


@dataclass(slots=True)
class ParsedRing:
    """Keys that were written down, and what is wrong with the others; no key is repeated there."""

    keys: list[Key] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ring(self) -> Keyring | None:
        """Return the ring, if there is a key."""
        return Keyring(self.keys) if self.keys else None


def parse_ring(text: str, *, is_dev: bool = False) -> ParsedRing:
    """Return the keys of a text, one per line or separated by commas; in dev mode weak ones, too."""
    out = ParsedRing()
    entries = [entry.strip() for line in text.splitlines() for entry in line.split(",")]
    for number, entry in enumerate((each for each in entries if each and not each.startswith("#")), start=1):
        secret = _decoded(entry)
        if secret is None or len(secret) != KEY_BYTES:
            out.problems.append(f"key {number} is not {KEY_BYTES} bytes in base64; 'redrive credentials key' makes one")
        elif not is_dev and _is_weak(secret):
            out.problems.append(f"key {number} can be guessed; 'redrive credentials key' makes one that cannot")
        elif any(key.secret == secret for key in out.keys):
            out.problems.append(f"key {number} is there twice")
        else:
            out.keys.append(Key(secret))
    return out


def kept_ring(folder: Path) -> Keyring:
    """Return the ring that is kept in a folder for its owner alone, made now if there is none; raises OSError."""
    path = folder / KEY_FILE
    folder.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{new_key()}\n")
    ring = parse_ring(path.read_text(encoding="ascii")).ring
    if ring is None:
        raise OSError(f"{path} holds no key")
    return ring


def _decoded(entry: str) -> bytes | None:
    try:
        return base64.b64decode(entry.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_weak(secret: bytes) -> bool:
    steps = {(after - before) % 256 for before, after in pairwise(secret)}
    is_typed = all(32 <= byte < 127 for byte in secret)
    return len(steps) == 1 or is_typed or len(set(secret)) < _FEWEST_VALUES
