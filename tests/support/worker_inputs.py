"""What the tool of a job would be given: the job sent as a message and made whole as a worker does it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from services.worker.inputs import Inputs, resolve, resolve_sink
from services.worker.keychain import Borrowed, Credential, Keychain
from services.worker.values import MissingValueError, Values
from shared.contracts.jobs import Job
from shared.contracts.messages import decode_job, encode_job
from shared.engine.world import KnownValues
from shared.engine.world import MissingValueError as NotAtHandError

SECRET = "s3cret"
HOSTILE: dict[str, Any] = {"$template": "{{ keychain.api.token }}", "$scope": {}}


class OneToken(Keychain):
    """Knows one credential, `api`, with one token."""

    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return Credential(name, "bearer", {"token": SECRET}) if name == "api" else None


class _Stored(Values):
    """What the decisions of a rehearsal stored."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known

    @override
    async def load(self, ref: str) -> Any:
        try:
            return self._known.load(ref)
        except NotAtHandError:
            raise MissingValueError("nothing is stored") from None

    @override
    async def store(self, text: str) -> dict[str, Any]:
        raise AssertionError("inputs are loaded, not stored")


def tool_inputs(job: Job, stored: KnownValues) -> Inputs:
    """Return what the tool of a job is called with."""
    sent = decode_job(encode_job(job))
    return asyncio.run(resolve(sent, _Stored(stored), Borrowed(OneToken(), sent)))


def sink_config(job: Job, stored: KnownValues, names: Mapping[str, Any]) -> Any:
    """Return what the sink of a job is called with after a result."""
    sent = decode_job(encode_job(job))
    return asyncio.run(resolve_sink(sent, _Stored(stored), Borrowed(OneToken(), sent), names))[0]
