"""The checks of `redrive doctor` that ask servers: database, migrations, clock, broker, topology, pools."""

from __future__ import annotations

import asyncio
import re

from alembic.script import ScriptDirectory

from services.cli.doctor import HEARD_WITHIN_S, MIN_POSTGRES, MIN_RABBIT, Finding, Patient, Status, clock, failed, now
from shared.broker.inspecting import Inspection, inspect
from shared.broker.port import Broker, Message, QueueStats
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import PREFIX, TIMERS_POOL, jobs_queue, topology
from shared.errors import RedriveError
from shared.store.connecting import create_plain_engine, translated
from shared.store.migrate import current, migration_config
from shared.store.postgres.store import PostgresStore
from shared.store.records import PoolLoad

SHOWN = 5
PUBLISH_WITHIN_S = 3.0
NOWHERE = f"{PREFIX}.doctor"
_ASK_DATABASE = "start it, or mend REDRIVE_DATABASE_URL; the user must be let in and the database must exist"
_ASK_BROKER = "start it, or mend REDRIVE_AMQP_URL; user, password and virtual host must be right"


async def database_findings(patient: Patient) -> list[Finding]:
    """Look at the database: reachable, new enough, migrated, and its clock."""
    if not patient.database_url:
        return [Finding("database", "skipped", "REDRIVE_DATABASE_URL is not set")]
    try:
        version = await _server_version(patient.database_url)
    except RedriveError as problem:
        return [failed("database", problem, _ASK_DATABASE)]
    major = int(version.partition(".")[0] or 0)
    found = [Finding("database", "ok", f"Postgres {version} answers")]
    if major < MIN_POSTGRES:
        found = [Finding("database", "problem", f"Postgres {version} is too old", f"use {MIN_POSTGRES} or later")]
    migrated = await _migrations(patient.database_url)
    found.append(migrated)
    store = PostgresStore.connect(patient.database_url, application="redrive doctor")
    try:
        before = now()
        theirs = await store.now()
        found.append(clock(theirs, before, now()))
    except RedriveError as problem:
        found.append(failed("clock", problem, _ASK_DATABASE))
    finally:
        await store.close()
    return found


async def broker_findings(patient: Patient, *, fix: bool) -> list[Finding]:
    """Look at the broker: reachable, new enough, not blocked, its topology, and who serves which pool."""
    if not patient.amqp_url:
        return [Finding("broker", "skipped", "REDRIVE_AMQP_URL is not set; an embedded system has its own broker")]
    try:
        broker = await RabbitBroker.connect(RabbitSettings(patient.amqp_url, name="redrive doctor"))
    except RedriveError as problem:
        return [failed("broker", problem, _ASK_BROKER)]
    try:
        wanted = topology(patient.pools)
        before = await inspect(patient.amqp_url, wanted)
        if fix and before.missing and not before.different:
            await broker.declare(wanted)
        seen = await inspect(patient.amqp_url, wanted) if fix else before
        fixed = [name for name in before.missing if name not in seen.missing]
        return [
            _broker(seen, is_blocked=await _is_blocked(broker)),
            _topology(seen, fixed),
            *await _pools(patient, broker),
        ]
    except RedriveError as problem:
        return [failed("broker", problem, _ASK_BROKER)]
    finally:
        await broker.close()


async def _is_blocked(broker: Broker) -> bool:
    """Say whether publishers are made to wait: a broker tells only one who publishes. No queue gets the message."""
    try:
        async with asyncio.timeout(PUBLISH_WITHIN_S):
            await broker.publish_many([Message("", NOWHERE, b"", NOWHERE, content_type="text/plain")])
    except TimeoutError:
        return True
    return broker.is_blocked


async def _server_version(url: str) -> str:
    from sqlalchemy import text

    engine = create_plain_engine(url)
    try:
        with translated():
            async with engine.connect() as connection:
                said = await connection.execute(text("SHOW server_version"))
                return str(said.scalar()).split()[0]
    finally:
        await engine.dispose()


async def _migrations(url: str) -> Finding:
    newest = ScriptDirectory.from_config(migration_config()).get_current_head()
    try:
        at = await current(url)
    except RedriveError as problem:
        return failed("migrations", problem, _ASK_DATABASE)
    if at == newest:
        return Finding("migrations", "ok", f"the database is at {at}, the newest revision")
    known = {script.revision for script in ScriptDirectory.from_config(migration_config()).walk_revisions()}
    if at is not None and at not in known:
        return Finding("migrations", "problem", f"the database is at {at}, which this release does not know",
                       "use the release that made it, or a later one")  # fmt: skip
    where = f"at {at}" if at is not None else "empty"
    return Finding("migrations", "problem", f"the database is {where}, the newest revision is {newest}",
                   "run 'redrive migrate'")  # fmt: skip


def _broker(seen: Inspection, *, is_blocked: bool) -> Finding:
    found = f"{seen.product} {seen.version} answers"
    if is_blocked:
        mend = "free memory or disk on its node, or raise its watermarks; publishers wait until then"
        return Finding("broker", "problem", f"{found} and blocks publishers: an alarm is on", mend)
    numbers = re.findall(r"\d+", seen.version)[:2]
    if len(numbers) == 2 and tuple(map(int, numbers)) < MIN_RABBIT:
        least = ".".join(map(str, MIN_RABBIT))
        return Finding("broker", "problem", f"{found} and is too old", f"use RabbitMQ {least} or later")
    return Finding("broker", "ok", found)


def _topology(seen: Inspection, fixed: list[str]) -> Finding:
    version = PREFIX.rpartition(".")[2]
    if seen.different:
        names = _some(sorted(seen.different))
        reason = next(iter(seen.different.values()))
        mend = (
            f"these are not as this release declares version {version} of the topology; stop the services, let the "
            "queues run empty, delete them, and run 'redrive doctor --fix'"
        )
        return Finding("topology", "problem", f"other arguments than version {version} has: {names} ({reason})", mend)
    if seen.missing:
        mend = "run 'redrive doctor --fix', or start a service, which declares them"
        return Finding("topology", "problem", f"{len(seen.missing)} are missing: {_some(seen.missing)}", mend)
    done = f"; declared now: {len(fixed)}" if fixed else ""
    return Finding("topology", "ok", f"everything of version {version} is there with the right arguments{done}")


async def _pools(patient: Patient, broker: Broker) -> list[Finding]:
    """Look at every pool that is named, served or worked for."""
    loads: dict[str, PoolLoad] = {}
    served: set[str] = set()
    if patient.database_url:
        store = PostgresStore.connect(patient.database_url, application="redrive doctor")
        try:
            loads = {load.pool: load for load in await store.pool_loads() if load.pool != TIMERS_POOL}
            served = {pool for row in await store.workers(HEARD_WITHIN_S) for pool in row.beat.pools}
        except RedriveError as problem:
            return [failed("pools", problem, _ASK_DATABASE)]
        finally:
            await store.close()
    names = sorted({*patient.pools, *loads, *served})
    stats = await broker.stats(map(jobs_queue, names))
    return [_pool(name, stats.get(jobs_queue(name)), loads.get(name), is_heard=name in served) for name in names]


def _pool(name: str, stats: QueueStats | None, load: PoolLoad | None, *, is_heard: bool) -> Finding:
    waiting = load.waiting if load is not None else 0
    if stats is not None and stats.consumers:
        return Finding("pools", "ok", f"{name}: {stats.consumers} consumers, {waiting} jobs wait")
    what = "it has no queue" if stats is None else "its queue has no consumer"
    heard = "; a worker that serves it was heard of lately" if is_heard else ""
    status: Status = "problem" if waiting else "warning"
    mend = f"start a worker with REDRIVE_POOLS={name}"
    return Finding("pools", status, f"{name}: nobody serves it: {what}, {waiting} jobs wait{heard}", mend)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
