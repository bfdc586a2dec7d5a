"""Rotation: every credential that another key sealed is sealed anew with the active one."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.runtime.sealing import Keyring, SealError
from shared.store.port import Credentials
from shared.store.records import AuditEntry, SealedCredential

BATCH = 100


@dataclass(slots=True)
class Rotated:
    """What was sealed anew, and what no configured key opens."""

    key_id: str
    resealed: list[str] = field(default_factory=list)
    unopened: dict[str, str] = field(default_factory=dict)


async def rotate(store: Credentials, keyring: Keyring, actor: str) -> Rotated:
    """Seal everything with the active key; harmless to repeat, and to interrupt."""
    out = Rotated(keyring.active_id)
    after = ""
    while batch := await store.sealed_otherwise(keyring.active_id, BATCH, after):
        for old in batch:
            await _reseal(store, keyring, old, out)
        after = batch[-1].name
    if out.resealed:
        details = {"resealed": len(out.resealed)}
        await store.note(AuditEntry(actor, "credentials.rotated", keyring.active_id, details))
    return out


async def _reseal(store: Credentials, keyring: Keyring, old: SealedCredential, out: Rotated) -> None:
    try:
        fields = keyring.open(old.name, old.kind, old.key_id, old.sealed)
    except SealError as problem:
        out.unopened[old.name] = str(problem)
        return
    new = SealedCredential(old.name, old.kind, keyring.seal(old.name, old.kind, fields), keyring.active_id)
    # One that was set meanwhile is sealed with the key of whoever set it; the next rotation sees to it.
    if await store.reseal(old, new):
        out.resealed.append(old.name)
