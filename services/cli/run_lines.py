"""A run as quiet lines: one for each event that matters to whoever reads a log of it."""

from __future__ import annotations

from typing import Any

from services.cli.output import printable
from services.cli.run_words import counted_rows, delay_of, error_text, failed, page_of, place_of, seconds, stored


def line_of(event: dict[str, Any]) -> str | None:
    """Return what an event says on one line, or nothing if it is not worth one."""
    payload = event["payload"]
    said = _of_step(event, payload) or _of_task(event, payload) or _of_loop(event, payload)
    if said is not None:
        return f"{place_of(event)}: {said}"
    return _of_execution(event, payload)


def _of_execution(event: dict[str, Any], payload: dict[str, Any]) -> str | None:
    match event["type"]:
        case "execution.started":
            return f"execution {event['execution_id']} started"
        case "execution.completed":
            return "execution completed"
        case "execution.failed":
            return f"execution failed: {error_text(payload.get('error'))}"
        case "execution.cancelled" | "execution.paused" | "execution.resumed" as kind:
            reason = f": {printable(str(payload['reason']))}" if payload.get("reason") else ""
            return f"execution {kind.partition('.')[2]}{reason}"
    return None


def _of_step(event: dict[str, Any], payload: dict[str, Any]) -> str | None:
    match event["type"]:
        case "step.started":
            return "started"
        case "step.completed":
            return "completed"
        case "step.skipped":
            return f"skipped ({payload.get('reason', 'when')})"
        case "step.failed":
            handled = "; an arc takes it up" if payload.get("handled") else ""
            return f"failed: {error_text(payload.get('error'))}{handled}"
    return None


def _of_task(event: dict[str, Any], payload: dict[str, Any]) -> str | None:
    match event["type"]:
        case "task.scheduled":
            return _scheduled(event, payload)
        case "task.processed" if (error := failed(event)) is not None:
            return f"attempt {event.get('attempt') or 1} failed: {error_text(error)}"
        case "task.processed" if event.get("iteration") is None and (rows := stored(event)) is not None:
            return f"{counted_rows(rows)} stored"
        case "task.retry_scheduled" if payload.get("retry_type", "on_error") == "on_error":
            attempt = f"attempt {payload.get('next_attempt')} of {payload.get('max_attempts')}"
            return f"again in {seconds(delay_of(event))}, {attempt}"
        case "task.retry_scheduled":
            wait = f" in {seconds(delay_of(event))}" if delay_of(event) > 0 else ""
            return f"call {payload.get('next_attempt')}{wait}"
        case "task.retry_exhausted":
            return f"no attempt is left after {payload.get('attempts')} ({payload.get('reason')})"
        case "job.poisoned":
            return f"no worker could take it: {printable(str(payload.get('reason')))}"
    return None


def _scheduled(event: dict[str, Any], payload: dict[str, Any]) -> str | None:
    page, delay = page_of(event), delay_of(event)
    parts = [f"page {page}"] if page > 1 else []
    if payload.get("signal"):
        parts.append(f"waits for the signal '{printable(str(payload['signal']))}'")
    elif delay >= 0.05:
        parts.append(f"waits {seconds(delay)}")
    parts += [f"warning: {printable(str(text))}" for text in payload.get("warnings") or ()]
    return ", ".join(parts) or None


def _of_loop(event: dict[str, Any], payload: dict[str, Any]) -> str | None:
    match event["type"]:
        case "loop.started":
            mode, size = payload.get("mode"), payload.get("collection_size")
            at_once = f", up to {payload.get('concurrency')} at once" if mode != "sequential" else ""
            if size is None:
                return f"loops over what it can claim{at_once}"
            return f"loops over {size} element{'' if size == 1 else 's'}{at_once}"
        case "loop.claimed":
            rows = payload.get("rows") or 0
            return f"claimed {counted_rows(rows)}" if rows else "nothing left to claim"
        case "loop.iteration_failed":
            return f"failed: {error_text(payload.get('error'))}"
        case "loop.completed":
            total, bad = payload.get("total_iterations"), payload.get("failed") or 0
            return f"{payload.get('successful')} of {total} succeeded" + (f", {bad} failed" if bad else "")
    return None
