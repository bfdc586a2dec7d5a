"""Executions in lines that people read: how one stands, its log, its time, what it could have been."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from services.cli.output import printable

MOST_CHARS = 200
_SECONDS = {"wait": "waited", "queue": "queued", "run": "ran"}


def about(found: dict[str, Any]) -> list[str]:
    """Return how an execution stands."""
    progress = found["progress"]
    version = f" version {found['playbook_version']}" if found["playbook_version"] is not None else ""
    lines = [
        f"{found['execution_id']}  {printable(found['path'])}{version}",
        f"{found['status']}, {progress['steps_ended']} of {progress['steps_started']} steps ended, "
        f"{found['retries']} retries",
        f"created {found['created_at']}, started {found['started_at'] or '-'}, finished {found['finished_at'] or '-'}",
    ]
    lines += [f"loop {_loop(loop)}" for loop in found["loops"]]
    lines += [f"retry {_retry(retry)}" for retry in found["retrying"]]
    if found["failure"] is not None:
        error = found["failure"]["error"]
        at = f" at {found['failure']['node']}" if found["failure"].get("node") else ""
        lines.append(f"failed{printable(at)}: {printable(str(error.get('message')))}")
    if found["result"] is not None:
        lines.append(json.dumps(found["result"], indent=2))
    return lines


def _loop(loop: dict[str, Any]) -> str:
    done, failed = loop["completed_iterations"], loop["failed_iterations"]
    return f"{printable(loop['node'])}: {done} of {loop['total_iterations']} done, {failed} failed"


def _retry(retry: dict[str, Any]) -> str:
    due = f", due {retry['available_at']}" if retry["available_at"] else ""
    why = f": {printable(str(retry['last_error']))}" if retry["last_error"] else ""
    attempt = f"attempt {retry['attempt']} of {retry['max_attempts']}"
    return f"{printable(retry['node'])}: {attempt}, {retry['status']}{due}{why}"


def event_line(event: dict[str, Any]) -> str:
    """Return an event on one line."""
    said = json.dumps(event["payload"])
    shown = said if len(said) <= MOST_CHARS else f"{said[:MOST_CHARS]}…"
    return f"{event['seq']:>6}  {event['occurred_at']}  {event['type']}  {printable(event['node'] or '-')}  {shown}"


def timeline_lines(found: dict[str, Any]) -> Iterator[str]:
    """Give steps and attempts with how long each part of them took."""
    for step in found["steps"]:
        yield f"{printable(step['node'])}  {step['status']}  {_length(step)}"
        for attempt in found["attempts"]:
            if attempt["node"].startswith((f"{step['node']}.", f"{step['node']}[")):
                yield f"  {_attempt(attempt)}"
    if found["truncated"]:
        yield "… and more than is shown"


def _attempt(attempt: dict[str, Any]) -> str:
    parts = ", ".join(f"{_SECONDS[item['kind']]} {_length(item)}" for item in attempt["intervals"])
    notes = " (nobody serves its pool)" if attempt["unserved"] and attempt["status"] == "waiting" else ""
    why = f": {printable(attempt['error'])}" if attempt["error"] else ""
    return f"{printable(attempt['node'])}  {attempt['status']}  {parts}{notes}{why}"


def _length(span: dict[str, Any]) -> str:
    if span["end"] is None:
        return f"since {span['start']}"
    seconds = (_time(span["end"]) - _time(span["start"])).total_seconds()
    return f"{seconds:.3f} s"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def simulation_lines(found: dict[str, Any]) -> list[str]:
    """Return what would have happened, and where knowledge ended."""
    lines = [f"recorded: {found['recorded_status']}; simulated: {found['status']}"]
    lines += [f"changed: {printable(change)}" for change in found["changes"]] or ["no decision changes"]
    if not found["certain"]:
        lines.append(f"from event {found['conjecture_from']} on it is conjecture:")
        lines += [f"  {printable(item['node'])}: {item['assumed']}" for item in found["conjectures"]]
    return lines
