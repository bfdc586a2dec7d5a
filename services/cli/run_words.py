"""Events in words: durations, errors and places as the lines and the tree of a run show them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from services.cli.output import printable

MAX_ERROR = 160


def seconds(value: float) -> str:
    """Return a duration as people say it: '0.3 s', '12 s', '2 min 5 s', '3 h 20 min'."""
    value = max(0.0, value)
    if value < 9.95:
        return f"{value:.1f}".rstrip("0").rstrip(".") + " s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")


def error_text(error: Any) -> str:
    """Return an error on one line, short enough for one."""
    found = error.get("message") or error.get("kind") if isinstance(error, dict) else error
    text = printable(" ".join(str(found or "it failed").split()))
    return text if len(text) <= MAX_ERROR else f"{text[: MAX_ERROR - 1]}…"


def place_of(event: dict[str, Any]) -> str:
    """Return where an event happened: 'step', 'step[2]', 'step.task', with the visit where there are several."""
    step, task = event.get("step") or "", event.get("task")
    visit = f"~{event['visit']}" if (event.get("visit") or 1) > 1 else ""
    iteration = "" if event.get("iteration") is None else f"[{event['iteration']}]"
    # The only task of a step has its name.
    return f"{step}{visit}{iteration}" + (f".{task}" if task and task != step else "")


def page_of(event: dict[str, Any]) -> int:
    """Return which page of a task an event is about."""
    node = str(event.get("node") or "")
    _, has_page, rest = node.partition("@")
    number = rest.partition("#")[0] if has_page else ""
    return int(number) if number.isdecimal() else 1


def delay_of(event: dict[str, Any]) -> float:
    """Return how long a task waits from this event on."""
    payload = event["payload"]
    given = payload.get("delay_s")
    if given:
        return float(given)
    until, now = payload.get("available_at"), event.get("occurred_at")
    if not until or not now:
        return 0.0
    return max(0.0, (_time(until) - _time(now)).total_seconds())


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def failed(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error of an attempt that ended badly; nothing, if it ended well."""
    outcome = event["payload"].get("outcome") or {}
    return None if outcome.get("status") == "success" else outcome.get("error") or {}


def stored(event: dict[str, Any]) -> int | None:
    """Return how many rows the sink of an attempt stored, if it has one."""
    meta = (event["payload"].get("outcome") or {}).get("meta") or {}
    rows = (meta.get("sink") or {}).get("rows")
    return rows if isinstance(rows, int) else None


def counted_rows(count: int) -> str:
    """Return a number of rows in words."""
    return f"{count:,} row{'' if count == 1 else 's'}"
