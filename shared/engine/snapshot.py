"""The state as JSON and back: what a snapshot holds."""

from __future__ import annotations

import dataclasses
from typing import Any

from shared.engine.ranges import Ranges
from shared.engine.state import Batch, Claims, Frame, Group, Known, LoopRun, State, StepRun, Token

SNAPSHOT_VERSION = 1


def snapshot(state: State) -> dict[str, Any]:
    """Return the state as JSON data; fields at their default are left out."""
    return {"v": SNAPSHOT_VERSION, "state": _record(state)}


def restore(data: dict[str, Any]) -> State:
    """Return the state a snapshot holds."""
    if data.get("v") != SNAPSHOT_VERSION:
        raise ValueError(f"unknown version of snapshots: {data.get('v')!r}")
    raw = data["state"]
    state = State(**_plain(raw, "runs", "suspended", "tokens", "groups", "known", "fired_joins"))
    state.runs = {key: _run(item) for key, item in raw.get("runs", {}).items()}
    state.suspended = {key: _run(item) for key, item in raw.get("suspended", {}).items()}
    state.tokens = {int(key): _token(item) for key, item in raw.get("tokens", {}).items()}
    state.groups = {int(key): Group(item["fan"], tuple(item["heads"])) for key, item in raw.get("groups", {}).items()}
    state.known = {key: Known(**item) for key, item in raw.get("known", {}).items()}
    state.fired_joins = {(step, group) for step, group in raw.get("fired_joins", [])}
    return state


def copy_of(state: State) -> State:
    """Return a state that shares nothing that changes with this one."""
    return restore(snapshot(state))


def _record(item: Any) -> Any:
    """Encode one of the state's own classes; data inside it is copied as deep as it changes."""
    out: dict[str, Any] = {}
    for spec in dataclasses.fields(item):
        value = getattr(item, spec.name)
        default = spec.default_factory() if spec.default_factory is not dataclasses.MISSING else spec.default
        if value != default or isinstance(value, bool) != isinstance(default, bool):
            out[spec.name] = _encoded(value)
    return out


def _encoded(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _record(value)
    if isinstance(value, Ranges):
        return value.pairs()
    if isinstance(value, dict):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, set):
        return sorted(_encoded(item) for item in value)
    return value


def _plain(raw: dict[str, Any], *but: str) -> dict[str, Any]:
    return {key: _copied(value) for key, value in raw.items() if key not in but}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _token(raw: dict[str, Any]) -> Token:
    token = Token(**_plain(raw, "groups"))
    token.groups = tuple(raw.get("groups", ()))
    return token


def _run(raw: dict[str, Any]) -> StepRun:
    run = StepRun(**_plain(raw, "groups", "frames", "loop"))
    run.groups = tuple(raw.get("groups", ()))
    run.frames = {int(key): Frame(**_copied(item)) for key, item in raw.get("frames", {}).items()}
    run.loop = _loop(raw["loop"]) if "loop" in raw else None
    return run


def _loop(raw: dict[str, Any]) -> LoopRun:
    loop = LoopRun(**_plain(raw, "redo", "failed", "results", "claims"))
    loop.claims = _claims(raw["claims"]) if "claims" in raw else None
    loop.redo = Ranges([(start, end) for start, end in raw.get("redo", [])])
    loop.failed = Ranges([(start, end) for start, end in raw.get("failed", [])])
    if "results" in raw:
        results = raw["results"]
        loop.results = None if results is None else {int(key): _copied(item) for key, item in results.items()}
    return loop


def _claims(raw: dict[str, Any]) -> Claims:
    claims = Claims(**_plain(raw, "waiting", "set_aside"))
    claims.waiting = [Batch(**_copied(item)) for item in raw.get("waiting", [])]
    claims.set_aside = [Batch(**_copied(item)) for item in raw.get("set_aside", [])]
    return claims
