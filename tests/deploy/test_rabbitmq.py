"""deploy/rabbitmq on a real node: the users are there, and each may do what it needs and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest
from aio_pika.exceptions import AMQPConnectionError, ChannelClosed, ProbableAuthenticationError
from aiormq.exceptions import ChannelAccessRefused

from shared.broker.port import Message
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import DEAD, EVENTS, JOBS, OUTCOMES, jobs_queue, pool_queue, topology
from shared.contracts.ids import Address, job_id
from shared.contracts.jobs import Job
from shared.contracts.messages import decode_facts, encode_job
from shared.errors import RejectedError, UnavailableError
from shared.runtime.embedded_rabbit import free_ports
from tests.deploy.nodes import VHOST, Node, container_environment, deployed_node, make_users
from tests.support.compose import here, project, variables
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(180)

POOL = "default"
SCALER = {"REDRIVE_BROKER_PASSWORD_SCALER": "a-password-of-this-test"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with deployed_node(**SCALER) as found:
        yield found


def url(node: Node, user: str) -> str:
    password = (variables() | SCALER)[f"REDRIVE_BROKER_PASSWORD_{user.upper()}"]
    return node.rabbit.url(f"redrive-{user}", password, VHOST)


@asynccontextmanager
async def broker(node: Node, user: str) -> AsyncIterator[RabbitBroker]:
    found = await RabbitBroker.connect(RabbitSettings(url(node, user), name=f"test {user}"))
    try:
        yield found
    finally:
        await found.close()


async def is_refused(node: Node, ask: str, *words: str, user: str = "worker", **more: bool) -> bool:
    """Say whether a user may not do something, on a connection of its own."""
    connection = await aio_pika.connect(url(node, user))
    try:
        channel = await connection.channel()
        underlay = await channel.get_underlay_channel()
        try:
            await getattr(underlay, ask)(*words, timeout=10, **more)
        except ChannelAccessRefused:
            return True
        return False
    finally:
        await connection.close()


@pytest.fixture
async def declared(node: Node) -> Node:
    async with broker(node, "orchestrator") as found:
        await found.declare(topology([POOL]))
    return node


@pytest.mark.parametrize("user", ["ingest", "orchestrator"])
async def test_those_who_declare_may_declare_everything(node: Node, user: str) -> None:
    async with broker(node, user) as found:
        await found.declare(topology([POOL, "gpu.large"]))


async def test_the_orchestrator_may_mark_the_broker_and_read_the_mark(declared: Node) -> None:
    async with broker(declared, "orchestrator") as found:
        await found.mark_incarnation("a-mark")

        assert await found.incarnation() == "a-mark"


async def test_a_worker_declares_its_pool_takes_a_job_and_reports(declared: Node) -> None:
    async with broker(declared, "orchestrator") as theirs, broker(declared, "worker") as ours:
        await ours.declare(pool_queue("own.pool"))
        assert await theirs.publish_many([Message(JOBS, "own.pool", b"job", "j1")]) == []
        consumer = await ours.consume(jobs_queue("own.pool"), 1)

        (delivery,) = await consumer.receive(1, 10)
        unrouted = await ours.publish_many([Message(OUTCOMES, "facts", b"facts", "f1")])
        await consumer.ack([delivery.tag])

        assert delivery.body == b"job"
        assert unrouted == []


async def test_what_a_worker_cannot_read_is_dead_lettered_for_it(declared: Node) -> None:
    async with broker(declared, "ingest") as theirs, broker(declared, "worker") as ours:
        await ours.declare(pool_queue("dying"))
        await theirs.publish_many([Message(JOBS, "dying", b"?", "d1")])
        consumer = await ours.consume(jobs_queue("dying"), 1)
        (delivery,) = await consumer.receive(1, 10)

        await consumer.reject([delivery.tag], requeue=False)

        dead = await (await theirs.consume(DEAD, 10)).receive(1, 10)
        assert [each.message_id for each in dead] == ["d1"]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ("basic_get", (EVENTS,)),
        ("basic_get", (OUTCOMES,)),
        ("basic_get", (DEAD,)),
        ("queue_purge", (EVENTS,)),
        ("queue_delete", (OUTCOMES,)),
        ("queue_declare", ("redrive.v1.another",)),
        ("queue_declare", ("anything",)),
        ("exchange_declare", ("redrive.v1.another",)),
        ("exchange_delete", (OUTCOMES,)),
        ("queue_bind", (jobs_queue(POOL), OUTCOMES, "#")),
        ("queue_bind", (jobs_queue(POOL), EVENTS, "#")),
    ],
)
async def test_a_worker_may_not(declared: Node, ask: str, words: tuple[str, ...]) -> None:
    assert await is_refused(declared, ask, *words)


@pytest.mark.parametrize("exchange", [JOBS, EVENTS, "redrive.v1.due", "redrive.v1.delay.p0", ""])
async def test_a_worker_may_publish_nothing_but_outcomes(declared: Node, exchange: str) -> None:
    connection = await aio_pika.connect(url(declared, "worker"))
    async with connection:
        underlay = await (await connection.channel()).get_underlay_channel()

        with pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
            await underlay.basic_publish(b"x", exchange=exchange, routing_key=POOL, timeout=10)


async def test_a_scaler_may_ask_how_long_a_queue_is_and_nothing_else(declared: Node) -> None:
    queue = jobs_queue(POOL)

    assert not await is_refused(declared, "queue_declare", queue, user="scaler", passive=True)
    assert await is_refused(declared, "basic_get", queue, user="scaler")
    assert await is_refused(declared, "queue_declare", "redrive.v1.jobs.mine", user="scaler")
    assert await is_refused(declared, "queue_purge", queue, user="scaler")


async def test_without_rights_the_worker_says_so_and_does_not_pretend(declared: Node) -> None:
    async with broker(declared, "worker") as ours:
        with pytest.raises((UnavailableError, RejectedError), match="ACCESS_REFUSED"):
            await ours.declare(topology([POOL]))


async def test_nobody_gets_in_with_a_password_that_everybody_knows(node: Node) -> None:
    for user, password, vhost in (
        ("guest", "guest", "/"),
        ("guest", "guest", VHOST),
        ("redrive-worker", "guest", VHOST),
    ):
        with pytest.raises((ProbableAuthenticationError, AMQPConnectionError)):
            await aio_pika.connect(node.rabbit.url(user, password, vhost), timeout=10)


def test_a_password_that_is_not_set_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    about = project()["services"]["broker-users"]
    given = {name: text for name, text in about["environment"].items() if not name.endswith("WORKER")}
    template = here(about["command"][3], {"/etc/redrive/definitions.json": Path("deploy/rabbitmq/definitions.json")})

    done = subprocess.run(
        ["redrive", "broker", "--template", template, "--output", str(tmp_path / "definitions.json")],
        env=container_environment(given), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "REDRIVE_BROKER_PASSWORD_WORKER (or REDRIVE_BROKER_PASSWORD_WORKER_FILE) is not set" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_definitions_hold_hashes_and_no_password(tmp_path: Path) -> None:
    assert make_users(tmp_path).returncode == 0

    text = (tmp_path / "rabbitmq-definitions" / "definitions.json").read_text()
    assert text.count('"password_hash":') == 3
    assert not any(value in text for value in variables().values())


async def test_a_worker_that_is_there_before_the_exchanges_waits_and_then_works() -> None:
    with deployed_node() as node:
        (port,) = free_ports(1)
        about = project()["services"]["worker"]
        given = about["environment"] | {
            "REDRIVE_AMQP_URL": url(node, "worker"),
            "REDRIVE_INGEST_URL": "http://127.0.0.1:9",
            "REDRIVE_HEALTH_HOST": "127.0.0.1",
            "REDRIVE_HEALTH_PORT": str(port),
        }
        process = await asyncio.create_subprocess_exec(
            *about["command"], env=container_environment(given), stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            while b"consume_failed" not in (line := await process.stderr.readline()):
                assert line, "the worker ended"

            address = Address("a", task="t", attempt=1)
            job = Job(job_id("e1", address), "e1", address, "noop", {}, pool=POOL)
            async with broker(node, "orchestrator") as theirs:
                await theirs.declare(topology([]))

                async def is_there() -> bool:
                    return jobs_queue(POOL) in await theirs.stats([jobs_queue(POOL)])

                async def is_taken() -> bool:
                    return not await theirs.publish_many([Message(JOBS, POOL, encode_job(job), job.job_id)])

                await eventually(is_there, within_s=60)
                await eventually(is_taken, within_s=60)
                consumer = await theirs.consume(OUTCOMES, 100)
                heard: set[str] = set()

                async def has_reported() -> bool:
                    for each in await consumer.receive(100, 1):
                        if each.routing_key == "facts":
                            heard.update(fact.type for fact in decode_facts(each.body))
                    return "task.processed" in heard

                await eventually(has_reported, within_s=60)
            process.terminate()
            await process.stderr.read()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
