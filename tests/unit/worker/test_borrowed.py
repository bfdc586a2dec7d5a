"""What a job was lent: hidden from logs and sinks, and taken back when it was not accepted."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from services.worker.hiding import HIDDEN, Veil
from services.worker.keychain import Borrowed, Credential, CredentialError, Keychain
from services.worker.sinks.port import Sink, Write, Written
from services.worker.sinks.registry import Sinks
from services.worker.tools.port import Call
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, http_failure, success
from shared.errors import UnavailableError
from shared.runtime.logs import JsonLines, hide_in_logs
from tests.unit.worker.given import a_job
from tests.unit.worker.test_runner import OneCredential, error_of, runner


class KeptSink(Sink):
    kind = "kept"

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @override
    async def write(self, write: Write) -> Written:
        self.kept.append(write.data)
        if "auth" in write.config:
            await write.credential(write.config["auth"])
        return Written(1)


class NobodyThere(Keychain):
    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        raise UnavailableError("ingest cannot be reached")


async def test_a_secret_is_hidden_from_the_log_of_a_tool_that_broke(caplog: pytest.LogCaptureFixture) -> None:
    async def does(call: Call) -> Outcome:
        raise ValueError(f"{'x' * 480}{call.config['key']}")

    veil = Veil()
    hide_in_logs(veil)
    config = {"key": {"$template": "{{ keychain.api.token }}", "$scope": {}}}
    job = a_job("told", config, deferred=(("config", "key"),))
    error = error_of(await runner(does, keychain=OneCredential(), veil=veil).run(job))
    (record,) = [each for each in caplog.records if each.message == "tool_failed"]
    line = JsonLines("worker").format(record)
    hide_in_logs(str)

    assert "s3cret" in str(record.exc_info)
    assert "s3cret" not in line
    assert "s3c" not in error["message"]


async def test_a_sink_is_given_the_result_without_what_was_lent() -> None:
    async def does(call: Call) -> Outcome:
        return success({"echo": call.config["key"]})

    sink = KeptSink()
    config = {"key": {"$template": "{{ keychain.api.token }}", "$scope": {}}}
    job = a_job("told", config, deferred=(("config", "key"),), sink={"kind": "kept", "config": {}})
    outcome = await runner(does, keychain=OneCredential(), sinks=Sinks([sink])).run(job)

    assert outcome.status == "success"
    assert sink.kept == [{"echo": HIDDEN}]


async def test_a_keychain_hears_that_what_it_lent_was_not_accepted() -> None:
    refused: list[str] = []

    class Hearing(OneCredential):
        @override
        async def refused(self, credential: Credential, job: Job) -> None:
            refused.append(credential.name)

    async def does(call: Call) -> Outcome:
        await call.credential("api")
        return http_failure(call.config["status"])

    for status in (401, 500):
        await runner(does, keychain=Hearing()).run(a_job("told", {"status": status}))

    assert refused == ["api"]


async def test_a_sink_whose_credential_cannot_be_asked_for_may_be_tried_again() -> None:
    job = a_job("noop", {}, sink={"kind": "kept", "config": {"auth": "api"}})
    error = error_of(await runner(keychain=NobodyThere(), sinks=Sinks([KeptSink()])).run(job))

    assert (error["kind"], error["retryable"], error["details"]["cause"]) == ("sink", True, "connection")


async def test_one_that_cannot_be_asked_is_a_failure_that_may_be_tried_again() -> None:
    with pytest.raises(CredentialError) as caught:
        await Borrowed(NobodyThere(), a_job()).credential("api")

    assert caught.value.outcome.error is not None
    assert (caught.value.outcome.error["kind"], caught.value.outcome.error["retryable"]) == ("connection", True)


@pytest.mark.parametrize(("asked", "fits"), [("bearer", True), ("bearer_credential", True), ("postgres", False)])
async def test_a_credential_of_another_kind_than_asked_for_is_refused(asked: str, fits: bool) -> None:
    borrowed = Borrowed(OneCredential(), a_job())
    auth = {"type": asked, "credential": "api"}
    if fits:
        assert (await borrowed.credential(auth)).name == "api"
        return
    with pytest.raises(CredentialError, match="is of kind bearer, not postgres"):
        await borrowed.credential(auth)
