"""The `rabbitmq` tool and sink against a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from services.worker.keychain import Credential, CredentialError
from services.worker.runner import Runner
from services.worker.sinks.port import SinkError, Write
from services.worker.sinks.rabbitmq import RabbitmqSink
from services.worker.sinks.registry import Sinks
from services.worker.tools.rabbitmq import MAX_MESSAGE_BYTES, RabbitmqTool
from services.worker.tools.rabbitmq_publishing import Post, Publishing
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts.outcomes import Outcome, success
from shared.runtime.clock import SystemClock
from tests.support import rabbit
from tests.support.eventually import eventually
from tests.support.rabbit import RabbitNode, Wire
from tests.unit.worker.given import ToldTool, a_call, a_job


@pytest.fixture
def node() -> RabbitNode:
    return rabbit.shared_node()


@pytest.fixture
async def channel(node: RabbitNode) -> AsyncIterator[AbstractChannel]:
    connection = await aio_pika.connect(node.url)
    yield await connection.channel()
    await connection.close()


@pytest.fixture
async def queue(channel: AbstractChannel) -> str:
    name = f"inbox-{uuid4().hex}"
    await channel.declare_queue(name, durable=True, arguments={"x-expires": 60_000})
    return name


@pytest.fixture
async def tool(node: RabbitNode) -> AsyncIterator[RabbitmqTool]:
    tool = RabbitmqTool(default_url=node.url)
    yield tool
    await tool.close()


async def received(channel: AbstractChannel, queue: str) -> AbstractIncomingMessage:
    found = await (await channel.get_queue(queue, ensure=False)).get(no_ack=True, fail=False)
    assert found is not None, "the queue is empty"
    return found


def lending(**fields: Any) -> Any:
    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), "rabbitmq", fields)

    return lend


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error"
    assert outcome.error is not None
    return outcome.error


# --- the tool ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "raw", "content_type"),
    [
        ({"a": ["ü"]}, '{"a":["ü"]}'.encode(), "application/json"),
        ([1], b"[1]", "application/json"),
        ("plain ü", "plain ü".encode(), "text/plain; charset=utf-8"),
        (None, b"", None),
    ],
)
async def test_a_message_is_in_the_queue_when_the_task_succeeds(
    tool: RabbitmqTool, channel: AbstractChannel, queue: str, body: Any, raw: bytes, content_type: str | None
) -> None:
    outcome = await tool.run(a_call({"routing_key": queue, "body": body, "headers": {"a": 1, "b": "x"}}))

    assert outcome.status == "success", outcome.error
    assert outcome.result == {"message_id": "job-1", "exchange": "", "routing_key": queue, "size": len(raw)}
    message = await received(channel, queue)
    assert (message.body, message.content_type) == (raw, content_type)
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert message.message_id == "job-1"
    assert message.headers == {"a": 1, "b": "x"}


async def test_a_message_goes_through_a_named_exchange(
    tool: RabbitmqTool, channel: AbstractChannel, queue: str
) -> None:
    exchange = await channel.declare_exchange(f"ex-{uuid4().hex}", "topic", auto_delete=True)
    await (await channel.get_queue(queue)).bind(exchange, "orders.*")
    outcome = await tool.run(a_call({"exchange": exchange.name, "routing_key": "orders.new", "body": 1}))

    assert outcome.status == "success", outcome.error
    assert (await received(channel, queue)).body == b"1"


async def test_an_attempt_that_is_delivered_twice_is_recognised_by_its_message_id(
    tool: RabbitmqTool, channel: AbstractChannel, queue: str
) -> None:
    runner = Runner(Registry([tool]), MemoryValues(), worker="w1", clock=SystemClock())
    for attempt in (1, 1, 2):
        await runner.run(a_job("rabbitmq", {"routing_key": queue, "body": "x"}, attempt=attempt))

    first, again, second = [(await received(channel, queue)).message_id for _ in range(3)]
    assert first == again
    assert first != second


async def test_a_message_that_no_queue_takes_is_an_error(tool: RabbitmqTool) -> None:
    error = error_of(await tool.run(a_call({"routing_key": "no-such-queue", "body": "s3cret"})))

    assert (error["kind"], error["code"], error["retryable"]) == ("client_error", "unroutable", False)
    assert "no-such-queue" in error["message"]
    assert "s3cret" not in json.dumps(error)


async def test_an_exchange_that_is_not_there_is_an_error_and_harms_no_other_message(
    tool: RabbitmqTool, channel: AbstractChannel, queue: str
) -> None:
    calls = [
        a_call({"exchange": "no-such" if number % 2 else "", "routing_key": queue, "body": number})
        for number in range(20)
    ]
    outcomes = await asyncio.gather(*(tool.run(call) for call in calls))

    assert [outcome.status for outcome in outcomes] == ["success", "error"] * 10
    assert {error_of(outcome)["code"] for outcome in outcomes[1::2]} == {"not_found"}
    assert error_of(outcomes[1])["kind"] == "client_error"


async def test_the_address_of_a_credential_is_used_and_never_shown(
    node: RabbitNode, channel: AbstractChannel, queue: str
) -> None:
    tool = RabbitmqTool()
    outcome = await tool.run(a_call({"routing_key": queue, "auth": "mq"}, lend=lending(url=node.url)))
    wrong = node.url.replace("guest:guest", "guest:s3cret")
    refused = await tool.run(a_call({"routing_key": queue, "auth": "mq"}, lend=lending(url=wrong)))
    nowhere = await tool.run(a_call({"routing_key": queue, "auth": "mq"}, lend=lending(url=f"{node.url}no-such")))
    await tool.close()

    assert outcome.status == "success", outcome.error
    assert (error_of(refused)["kind"], error_of(refused)["retryable"]) == ("auth", False)
    assert error_of(nowhere)["kind"] in ("auth", "connection")
    assert "s3cret" not in json.dumps(refused.as_json())


@pytest.mark.parametrize("fields", [{}, {"url": "http://s3cret/"}, {"url": "s3cret"}, {"url": 3}, {"url": "amqp://:x"}])
async def test_a_credential_without_an_address_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(CredentialError) as caught:
        await RabbitmqTool().run(a_call({"routing_key": "q", "auth": "mq"}, lend=lending(**fields)))

    assert error_of(caught.value.outcome)["kind"] == "auth"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"body": 1}, "routing_key or exchange"),
        ({"routing_key": "x" * 256}, "255 bytes"),
        ({"routing_key": "q", "header": {}}, "header"),
        ({"routing_key": "q", "headers": {"a": 2**70}}, "headers"),
        ({"routing_key": "q", "headers": {"a" * 300: 1}}, "headers"),
        ({"routing_key": "q", "headers": {"a": "\ud800"}}, "headers"),
        ({"routing_key": "q\ud800"}, "routing_key"),
        ({"routing_key": "q", "body": {"a": float("nan")}}, "body"),
        ({"routing_key": "q", "body": "\ud800"}, "body"),
    ],
)
async def test_a_message_that_cannot_be_made_is_an_error_that_says_why(
    tool: RabbitmqTool, config: dict[str, Any], complaint: str
) -> None:
    error = error_of(await tool.run(a_call(config)))

    assert (error["kind"], error["retryable"]) == ("expression", False)
    assert complaint in error["message"]


async def test_without_a_broker_for_tools_a_credential_is_needed() -> None:
    error = error_of(await RabbitmqTool().run(a_call({"routing_key": "q", "body": 1})))

    assert error["kind"] == "expression"
    assert "REDRIVE_TOOL_AMQP_URL" in error["message"]


async def test_a_message_that_is_too_large_is_not_sent(tool: RabbitmqTool, queue: str) -> None:
    error = error_of(await tool.run(a_call({"routing_key": queue, "body": "x" * (MAX_MESSAGE_BYTES + 1)})))

    assert (error["kind"], error["retryable"]) == ("limit", False)


async def test_nobody_listening_is_a_failed_connection() -> None:
    tool = RabbitmqTool(default_url="amqp://guest:s3cret@127.0.0.1:1/")
    error = error_of(await tool.run(a_call({"routing_key": "q"})))
    await tool.close()

    assert (error["kind"], error["retryable"]) == ("connection", True)
    assert "s3cret" not in json.dumps(error)


async def test_a_broker_that_keeps_silent_is_a_timeout(node: RabbitNode, queue: str) -> None:
    async with Wire(node) as wire:
        tool = RabbitmqTool(default_url=wire.url)
        first = await tool.run(a_call({"routing_key": queue}))
        wire.freeze()
        frozen = await tool.run(a_call({"routing_key": queue}, timeout_s=0.3))
        wire.thaw()
        await tool.close()

    assert first.status == "success"
    assert (error_of(frozen)["kind"], error_of(frozen)["retryable"]) == ("timeout", True)
    assert "0.3 s" in error_of(frozen)["message"]


async def test_a_connection_that_was_lost_is_made_again(node: RabbitNode, queue: str) -> None:
    async with Wire(node) as wire:
        tool = RabbitmqTool(default_url=wire.url)
        assert (await tool.run(a_call({"routing_key": queue}))).status == "success"
        wire.cut()

        async def works() -> bool:
            outcome = await tool.run(a_call({"routing_key": queue}))
            assert outcome.status == "success" or error_of(outcome)["retryable"]
            return outcome.status == "success"

        await eventually(works)
        await tool.close()


# --- connections ---------------------------------------------------------------------------------------------------


async def test_calls_to_one_broker_share_a_connection_that_ends_when_it_is_idle(node: RabbitNode, queue: str) -> None:
    publishing = Publishing(idle_s=0.1)
    posts = [Post("", queue, b"x", str(number)) for number in range(10)]
    await asyncio.gather(*(publishing.publish(node.url, post) for post in posts))
    assert publishing.connections == 1

    async def is_over() -> bool:
        return publishing.connections == 0

    await eventually(is_over)
    await publishing.publish(node.url, posts[0])
    await publishing.close()
    assert publishing.connections == 0


async def test_there_are_never_more_connections_than_allowed(node: RabbitNode, queue: str) -> None:
    publishing = Publishing(max_connections=2)
    most = 0

    async def send(number: int) -> None:
        nonlocal most
        await publishing.publish(f"{node.url}?purpose={number % 6}", Post("", queue, b"x", str(number)))
        most = max(most, publishing.connections)

    await asyncio.gather(*(send(number) for number in range(18)))
    await publishing.close()

    assert most == 2


# --- the sink ------------------------------------------------------------------------------------------------------

ROWS = [{"id": 1}, {"id": 2}]


def a_write(config: dict[str, Any], data: Any = ROWS, **more: Any) -> Write:
    return Write("job-1", "e1", "fetch~1.get#1", config, data, **more)


@pytest.fixture
async def sink(node: RabbitNode) -> AsyncIterator[RabbitmqSink]:
    sink = RabbitmqSink(default_url=node.url)
    yield sink
    await sink.close()


WHOLE = b'[{"id":1},{"id":2}]'


@pytest.mark.parametrize(
    ("config", "raw"), [({}, WHOLE), ({"body": {"n": 2}}, b'{"n":2}'), ({"mode": "append"}, WHOLE)]
)
async def test_the_data_is_one_message_with_the_identity_of_the_write(
    sink: RabbitmqSink, channel: AbstractChannel, queue: str, config: dict[str, Any], raw: bytes
) -> None:
    written = await sink.write(a_write({"routing_key": queue, **config}))

    assert (written.rows, written.details) == (2, {"message_id": "job-1"})
    message = await received(channel, queue)
    assert (message.body, message.message_id, message.content_type) == (raw, "job-1", "application/json")


@pytest.mark.parametrize(
    ("config", "cause", "retryable"),
    [
        ({"routing_key": "no-such-queue"}, "client_error", False),
        ({"exchange": "no-such"}, "client_error", False),
        ({}, "expression", False),
        ({"routing_key": "q", "mode": "replace"}, "expression", False),
        ({"routing_key": "q", "key": "id"}, "expression", False),
    ],
)
async def test_what_cannot_be_published_is_an_error_of_the_sink(
    sink: RabbitmqSink, config: dict[str, Any], cause: str, retryable: bool
) -> None:
    with pytest.raises(SinkError) as caught:
        await sink.write(a_write(config))

    assert (caught.value.cause, caught.value.retryable) == (cause, retryable)


async def test_a_broker_that_is_down_may_be_tried_again() -> None:
    sink = RabbitmqSink()
    with pytest.raises(SinkError) as caught:
        await sink.write(a_write({"routing_key": "q", "auth": "mq"}, lend=lending(url="amqp://a:s3cret@127.0.0.1:1/")))
    await sink.close()

    assert (caught.value.cause, caught.value.retryable) == ("connection", True)
    assert "s3cret" not in caught.value.message


async def test_a_task_is_done_when_its_message_is_in_the_queue(
    sink: RabbitmqSink, channel: AbstractChannel, queue: str
) -> None:
    async def does(call: Any) -> Outcome:
        return success({"data": ROWS})

    runner = Runner(Registry([ToldTool(does)]), MemoryValues(), worker="w1", clock=SystemClock(), sinks=Sinks([sink]))
    job = a_job("told", sink={"kind": "rabbitmq", "config": {"routing_key": queue}})
    outcome = await runner.run(job)

    assert outcome.meta["sink"] == {"kind": "rabbitmq", "rows": 2, "repeated": False, "message_id": job.job_id}
    assert json.loads((await received(channel, queue)).body) == ROWS
