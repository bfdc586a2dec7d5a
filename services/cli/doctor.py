"""What `redrive doctor` looks at: each check says what it found, and how to mend it if something is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from shared.errors import RedriveError

Status = Literal["ok", "warning", "problem", "skipped"]

MIN_POSTGRES = 14
MIN_RABBIT = (3, 10)
MAX_SKEW_S = 1.0
MIN_FREE_BYTES = 512 * 1024 * 1024
LOW_FREE_BYTES = 2 * 1024 * 1024 * 1024
HEARD_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `mend` says what to do about it."""

    check: str
    status: Status
    found: str
    mend: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as data."""
        return {"check": self.check, "status": self.status, "found": self.found, "mend": self.mend}


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at; what is not named is not looked at."""

    database_url: str = ""
    amqp_url: str = ""
    pools: tuple[str, ...] = ("default",)
    data: Path | None = None
    credential_keys: str = ""
    is_dev: bool = False


async def examine(patient: Patient, *, fix: bool = False) -> list[Finding]:
    """Return what every check found; with `fix`, what is missing on the broker is declared first."""
    from services.cli.doctor_servers import broker_findings, database_findings

    findings = await database_findings(patient)
    findings += await broker_findings(patient, fix=fix)
    findings.append(disk(patient.data))
    findings.append(key_ring(patient.credential_keys, is_dev=patient.is_dev, data=patient.data))
    return findings


def disk(folder: Path | None) -> Finding:
    """Look at the data folder of an embedded system: that it can be written, and that there is room."""
    if folder is None:
        return Finding("disk", "skipped", "no data folder is named; an embedded system has one")
    if not folder.is_dir():
        return Finding("disk", "problem", f"{folder} is no folder", "name an existing folder with --data")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("disk", "problem", f"{folder} cannot be written", f"let this user write there: chown {folder}")
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB are free in {folder}"
    if free < MIN_FREE_BYTES:
        return Finding("disk", "problem", found, "make room: the database stops when the disk is full")
    if free < LOW_FREE_BYTES:
        return Finding("disk", "warning", found, "make room before it is full")
    return Finding("disk", "ok", found)


def key_ring(text: str, *, is_dev: bool = False, data: Path | None = None) -> Finding:
    """Look at the keys that credentials are sealed with; no key is ever shown."""
    from shared.runtime.sealing import parse_ring

    setting = "REDRIVE_CREDENTIAL_KEYS"
    if not text:
        if is_dev and data is not None:
            return Finding("credentials", "ok", "the key of credentials is kept in the data folder")
        mend = f"make a key with 'redrive credentials key' and set {setting}, if playbooks need credentials"
        return Finding("credentials", "warning", f"{setting} is not set: credentials are off", mend)
    parsed = parse_ring(text, is_dev=is_dev)
    if parsed.problems:
        return Finding("credentials", "problem", "; ".join(parsed.problems), f"mend {setting}")
    return Finding("credentials", "ok", f"{len(parsed.keys)} keys; new credentials are sealed with the first")


def clock(theirs: datetime, before: datetime, after: datetime) -> Finding:
    """Compare the database's clock with this machine's, given when it was asked and when it had answered."""
    middle = before + (after - before) / 2
    skew_s = (theirs - middle).total_seconds()
    spread_s = (after - before).total_seconds() / 2
    found = f"the database's clock differs from this machine's by {skew_s:+.3f} s (±{spread_s:.3f} s)"
    if abs(skew_s) - spread_s <= MAX_SKEW_S:
        return Finding("clock", "ok", found)
    mend = "synchronise both machines by NTP; due times are the database's and stay right, times in logs do not"
    return Finding("clock", "warning", found, mend)


def now() -> datetime:
    """Return this machine's time."""
    from shared.runtime.clock import SystemClock

    return SystemClock().now().astimezone(UTC)


def failed(check: str, problem: RedriveError, mend: str) -> Finding:
    """Return that a check could not be made."""
    return Finding(check, "problem", str(problem)[:500], mend)


def patient_of(values: Mapping[str, str], data: str | None) -> tuple[Patient, list[str]]:
    """Return what an environment names, and what is wrong with the environment."""
    from shared.runtime.config import Environment

    env = Environment(values)
    folder = data or env.text("REDRIVE_DATA_DIR", "")
    patient = Patient(
        database_url=env.text("REDRIVE_DATABASE_URL", ""),
        amqp_url=env.text("REDRIVE_AMQP_URL", ""),
        pools=env.words("REDRIVE_POOLS", "default"),
        data=Path(folder) if folder else None,
        credential_keys=env.text("REDRIVE_CREDENTIAL_KEYS", ""),
        is_dev=env.is_dev,
    )
    from shared.contracts.pools import pool_problem

    wrong = [f"REDRIVE_POOLS: {problem}" for pool in patient.pools if (problem := pool_problem(pool))]
    return patient, [*env.problems, *wrong]
