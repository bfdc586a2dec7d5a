"""The settings of a worker, read from the environment once."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from services.worker.tools.configs import parse_size
from services.worker.tools.http_guard import ALLOW_SETTING, DENY_SETTING, guard_of
from services.worker.tools.process import FIRST_UID
from shared.broker.topology import pool_topology
from shared.contracts.jobs import DEFAULT_POOL
from shared.runtime.config import Environment

DEV_AMQP_URL = "amqp://guest:guest@127.0.0.1:5672/"
DEV_INGEST_URL = "http://127.0.0.1:8080"
KNOWN_TOKENS = ("dev", "changeme", "secret", "token")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a worker is told from outside."""

    amqp_url: str
    ingest_url: str
    token: str
    name: str
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    concurrency: int = 16
    health_host: str = "0.0.0.0"
    health_port: int = 8083
    grace_s: float = 20.0
    announce_after_s: float = 0.05
    lease_after_s: float = 300.0
    lease_s: float = 60.0
    heartbeat_s: float = 10.0
    default_timeout_s: float | None = None
    python: str = sys.executable
    python_memory: int | None = 1024**3
    shell_memory: int | None = 4 * 1024**3
    scripts_root: str | None = None
    files_root: str | None = None
    duckdb_memory: int = 512 * 1024**2
    postgres_max_rows: int = 100_000
    postgres_max_result: int = 32 * 1024**2
    duckdb_extensions: str | None = None
    first_uid: int | None = FIRST_UID
    disabled_tools: tuple[str, ...] = ()
    log_level: str = "INFO"
    remember_credentials_s: float = 300.0
    http_deny: tuple[str, ...] = ()
    http_allow: tuple[str, ...] = ()
    tool_amqp_url: str | None = None

    def __repr__(self) -> str:
        return f"Settings(name={self.name!r}, pools={self.pools!r}, concurrency={self.concurrency})"


def read_settings(values: Mapping[str, str]) -> Settings:
    """Return the settings that an environment states; raises SettingsError with every problem it has."""
    env = Environment(values)
    default_timeout = env.seconds("REDRIVE_DEFAULT_TIMEOUT", 0.0)
    settings = Settings(
        amqp_url=env.required("REDRIVE_AMQP_URL", DEV_AMQP_URL),
        ingest_url=env.required("REDRIVE_INGEST_URL", DEV_INGEST_URL),
        token=env.required("REDRIVE_WORKER_TOKEN", "dev", refuse=KNOWN_TOKENS),
        name=env.text("REDRIVE_WORKER_NAME", f"{socket.gethostname()}-{os.getpid()}"),
        pools=env.words("REDRIVE_POOLS", DEFAULT_POOL),
        concurrency=env.whole("REDRIVE_CONCURRENCY", 16, at_least=1),
        health_host=env.text("REDRIVE_HEALTH_HOST", "127.0.0.1" if env.is_dev else "0.0.0.0"),
        health_port=env.whole("REDRIVE_HEALTH_PORT", 8083),
        grace_s=env.seconds("REDRIVE_GRACE", 20.0),
        lease_after_s=env.seconds("REDRIVE_LEASE_AFTER", 300.0),
        lease_s=env.seconds("REDRIVE_LEASE", 60.0),
        heartbeat_s=env.seconds("REDRIVE_HEARTBEAT", 10.0),
        default_timeout_s=default_timeout or None,
        python=env.text("REDRIVE_PYTHON", sys.executable),
        python_memory=_size(env, "REDRIVE_PYTHON_MEMORY", 1024**3),
        shell_memory=_size(env, "REDRIVE_SHELL_MEMORY", 4 * 1024**3),
        scripts_root=env.text("REDRIVE_SCRIPTS_ROOT", "") or None,
        files_root=env.text("REDRIVE_FILES_ROOT", "") or None,
        duckdb_memory=_size(env, "REDRIVE_DUCKDB_MEMORY", 512 * 1024**2),
        postgres_max_rows=env.whole("REDRIVE_POSTGRES_MAX_ROWS", 100_000, at_least=1),
        postgres_max_result=_size(env, "REDRIVE_POSTGRES_MAX_RESULT", 32 * 1024**2),
        duckdb_extensions=env.text("REDRIVE_DUCKDB_EXTENSIONS", "") or None,
        first_uid=_first_uid(env),
        disabled_tools=_disabled(env),
        log_level=env.text("REDRIVE_LOG_LEVEL", "INFO"),
        remember_credentials_s=env.seconds("REDRIVE_REMEMBER_CREDENTIALS", 300.0),
        http_deny=_hosts(env, DENY_SETTING),
        http_allow=_hosts(env, ALLOW_SETTING),
        tool_amqp_url=env.text("REDRIVE_TOOL_AMQP_URL", "") or None,
    )
    _check(env, settings)
    env.check()
    return settings


def _check(env: Environment, settings: Settings) -> None:
    for pool in settings.pools:
        try:
            pool_topology(pool)
        except ValueError as problem:
            env.problems.append(f"REDRIVE_POOLS: {problem}")
    if settings.heartbeat_s <= 0 or settings.lease_s < 2 * settings.heartbeat_s:
        env.problems.append("REDRIVE_LEASE must be at least twice REDRIVE_HEARTBEAT, and that more than 0")


def _hosts(env: Environment, name: str) -> tuple[str, ...]:
    """Return the hosts of a list that is separated by commas."""
    found = tuple(word.strip() for word in env.text(name, "").split(",") if word.strip())
    try:
        guard_of(found, ())
    except ValueError as problem:
        env.problems.append(f"{name}: {problem}")
    return found


def _first_uid(env: Environment) -> int | None:
    """Return the first user that code runs as when the worker is root; `off` leaves it the worker's own."""
    if env.text("REDRIVE_CODE_UID", "").strip().lower() == "off":
        return None
    return env.whole("REDRIVE_CODE_UID", FIRST_UID, at_least=1)


def _disabled(env: Environment) -> tuple[str, ...]:
    return tuple(word.strip() for word in env.text("REDRIVE_DISABLED_TOOLS", "").split(",") if word.strip())


def _size(env: Environment, name: str, default: int) -> int:
    try:
        return parse_size(env.text(name, str(default)))
    except ValueError:
        env.problems.append(f"{name} is no size such as 512MB")
        return default
