"""Settings of the orchestrator, read from the environment once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.contracts.pools import pool_problem
from shared.runtime.config import Environment


@dataclass(frozen=True, slots=True)
class Settings:
    """Where its servers are, how much it takes at once, how often it sweeps."""

    database_url: str
    amqp_url: str
    name: str = "orchestrator"
    pools: tuple[str, ...] = ("default",)
    batch: int = 200
    lanes: int = 2
    sweep_every_s: float = 2.0
    grace_s: float = 2.0
    silent_s: float = 30.0
    stop_within_s: float = 20.0
    log_level: str = "INFO"
    health_port: int = 0
    health_host: str = "127.0.0.1"
    env: Mapping[str, str] = field(default_factory=dict)


def settings_from(values: Mapping[str, str]) -> Settings:
    """Return the settings an environment states; raises SettingsError with everything that is wrong with it."""
    found = Environment(values)
    settings = Settings(
        database_url=found.required("REDRIVE_DATABASE_URL"),
        amqp_url=found.required("REDRIVE_AMQP_URL"),
        name=found.text("REDRIVE_NAME", "orchestrator"),
        pools=found.words("REDRIVE_POOLS", "default"),
        batch=found.whole("REDRIVE_BATCH", 200, at_least=1),
        lanes=found.whole("REDRIVE_LANES", 2, at_least=1),
        sweep_every_s=found.seconds("REDRIVE_SWEEP_EVERY", 2.0),
        grace_s=found.seconds("REDRIVE_SWEEP_GRACE", 2.0),
        silent_s=found.seconds("REDRIVE_WORKER_SILENT", 30.0),
        stop_within_s=found.seconds("REDRIVE_STOP_WITHIN", 20.0),
        log_level=found.text("REDRIVE_LOG_LEVEL", "INFO"),
        health_port=found.whole("REDRIVE_HEALTH_PORT", 0),
        health_host=found.text("REDRIVE_HEALTH_HOST", "127.0.0.1"),
        env=_allowed_environment(values, found.text("REDRIVE_PLAYBOOK_ENV", "")),
    )
    problems = filter(None, map(pool_problem, settings.pools))
    found.problems.extend(f"REDRIVE_POOLS: {problem}" for problem in problems)
    found.check()
    return settings


def _allowed_environment(values: Mapping[str, str], names: str) -> dict[str, str]:
    """Return the variables that playbooks may read as `env.NAME`: those the operator named."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    return {name: values[name] for name in wanted if name in values}
