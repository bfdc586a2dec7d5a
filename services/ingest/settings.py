"""The settings of ingest, read from the environment once."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.ingest.auth import Key, parse_keys
from shared.broker.topology import pool_topology
from shared.contracts.jobs import DEFAULT_POOL
from shared.runtime.config import Environment
from shared.runtime.sealing import Keyring, kept_ring, parse_ring

MIB = 1024 * 1024
KEYS_SETTING = "REDRIVE_CREDENTIAL_KEYS"
DEV_AMQP_URL = "amqp://guest:guest@127.0.0.1:5672/"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything ingest is told from outside."""

    database_url: str = ""
    amqp_url: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    name: str = "ingest"
    is_dev: bool = False
    keys: tuple[Key, ...] = ()
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    body_limit: int = 8 * MIB
    result_limit: int = 64 * MIB
    batch: int = 500
    lanes: int = 2
    poll_s: float = 0.25
    longest_wait_s: float = 300.0
    stop_within_s: float = 20.0
    log_level: str = "INFO"
    keyring: Keyring | None = None

    def __repr__(self) -> str:
        return f"Settings(name={self.name!r}, host={self.host!r}, port={self.port}, is_dev={self.is_dev})"


def read_settings(values: Mapping[str, str]) -> Settings:
    """Return the settings that an environment states; raises SettingsError with every problem it has."""
    env = Environment(values)
    parsed = parse_keys(env.text("REDRIVE_API_KEYS", ""), is_dev=env.is_dev)
    env.problems.extend(f"REDRIVE_API_KEYS: {problem}" for problem in parsed.problems)
    ring = parse_ring(env.text(KEYS_SETTING, ""), is_dev=env.is_dev)
    env.problems.extend(f"{KEYS_SETTING}: {problem}" for problem in ring.problems)
    settings = Settings(
        database_url=env.required("REDRIVE_DATABASE_URL"),
        amqp_url=env.required("REDRIVE_AMQP_URL", DEV_AMQP_URL),
        host=env.text("REDRIVE_HOST", "127.0.0.1" if env.is_dev else "0.0.0.0"),
        port=env.whole("REDRIVE_PORT", 8080),
        name=env.text("REDRIVE_NAME", "ingest"),
        is_dev=env.is_dev,
        keys=tuple(parsed.keys),
        pools=env.words("REDRIVE_POOLS", DEFAULT_POOL),
        body_limit=env.whole("REDRIVE_BODY_LIMIT", 8 * MIB, at_least=1024),
        result_limit=env.whole("REDRIVE_RESULT_LIMIT", 64 * MIB, at_least=1024),
        batch=env.whole("REDRIVE_BATCH", 500, at_least=1),
        lanes=env.whole("REDRIVE_LANES", 2, at_least=1),
        stop_within_s=env.seconds("REDRIVE_STOP_WITHIN", 20.0),
        log_level=env.text("REDRIVE_LOG_LEVEL", "INFO"),
        keyring=ring.ring or _kept_keyring(env),
    )
    _check(env, settings)
    env.check()
    return settings


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _kept_keyring(env: Environment) -> Keyring | None:
    """Return a key of our own, kept with the data, in dev mode and where data is kept; else credentials are off."""
    folder = env.text("REDRIVE_DATA_DIR", "")
    if not env.is_dev or not folder:
        return None
    try:
        return kept_ring(Path(folder))
    except (OSError, UnicodeDecodeError):
        env.problems.append(f"REDRIVE_DATA_DIR: the key of credentials cannot be kept there; set {KEYS_SETTING}")
        return None


def _check(env: Environment, settings: Settings) -> None:
    if settings.is_dev and not settings.keys and not is_loopback(settings.host):
        env.problems.append("REDRIVE_DEV without keys lets everybody in, so REDRIVE_HOST must be a loopback address")
    if not settings.is_dev and not settings.keys and not any("API_KEYS" in problem for problem in env.problems):
        env.problems.append("REDRIVE_API_KEYS (or REDRIVE_API_KEYS_FILE) is not set; a key is name:scope+scope:secret")
    if not 0 <= settings.port <= 65535:
        env.problems.append("REDRIVE_PORT is no port")
    if settings.log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        env.problems.append("REDRIVE_LOG_LEVEL is none of DEBUG, INFO, WARNING, ERROR")
    for pool in settings.pools:
        try:
            pool_topology(pool)
        except ValueError as problem:
            env.problems.append(f"REDRIVE_POOLS: {problem}")
