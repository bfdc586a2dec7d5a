"""How a run stands: folded from its events, with no more in memory than can be shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from services.cli.run_words import delay_of, error_text, failed, page_of, stored

State = Literal["waiting", "running", "done", "failed", "skipped"]

MOST_STEPS = 500
MOST_NOTES = 3


@dataclass(slots=True)
class TaskView:
    """One task of a step, or of an iteration: its latest attempt."""

    name: str
    state: State = "running"
    attempt: int = 1
    max_attempts: int = 1
    page: int = 1
    due_s: float | None = None
    signal: str | None = None
    error: str | None = None


@dataclass(slots=True)
class LoopView:
    """A loop: how many of its elements are through, and what those under way are at."""

    total: int
    done: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    active: dict[int, TaskView] = field(default_factory=dict)


@dataclass(slots=True)
class StepView:
    """One run of a step."""

    name: str
    visit: int
    began_s: float
    state: State = "running"
    ended_s: float | None = None
    tasks: dict[str, TaskView] = field(default_factory=dict)
    loop: LoopView | None = None
    stored: int | None = None
    error: str | None = None


@dataclass(slots=True)
class Progress:
    """A run as it stands; `apply` takes its events in order, each with the moment it was heard."""

    title: str
    began_s: float = 0.0
    state: str = "starting"
    steps: dict[str, StepView] = field(default_factory=dict)
    left_out: int = 0
    attempts: int = 0
    retries: int = 0
    error: str | None = None
    ended_s: float | None = None

    def apply(self, event: dict[str, Any], now_s: float) -> None:
        """Take in what happened."""
        kind, payload = event["type"], event["payload"]
        if kind.startswith("execution."):
            self._execution(kind, payload, now_s)
        elif event.get("step"):
            frame = f"{event['step']}~{event.get('visit') or 1}"
            if kind == "step.started" or kind == "step.skipped":
                self._begin(frame, event, now_s)
            if (step := self.steps.get(frame)) is not None:
                _step(step, kind, payload, now_s)
                self._task(step, kind, event, now_s)
                if kind == "task.processed" and (rows := stored(event)) is not None:
                    step.stored = (step.stored or 0) + rows
        if kind == "task.processed":
            self.attempts += 1
        if kind == "task.retry_scheduled" and payload.get("retry_type", "on_error") == "on_error":
            self.retries += 1

    def _execution(self, kind: str, payload: dict[str, Any], now_s: float) -> None:
        name = kind.partition(".")[2]
        self.state = {"requested": "starting", "started": "running", "resumed": "running"}.get(name, name)
        if name in ("completed", "failed", "cancelled"):
            self.ended_s = now_s
        if name == "failed":
            self.error = error_text(payload.get("error"))

    def _begin(self, frame: str, event: dict[str, Any], now_s: float) -> None:
        if len(self.steps) >= MOST_STEPS:
            oldest = next((key for key, step in self.steps.items() if step.ended_s is not None), None)
            if oldest is not None:
                del self.steps[oldest]
                self.left_out += 1
        self.steps[frame] = StepView(event["step"], event.get("visit") or 1, now_s)

    def _task(self, step: StepView, kind: str, event: dict[str, Any], now_s: float) -> None:
        name, index = event.get("task"), event.get("iteration")
        if kind.startswith("loop.iteration_") and step.loop is not None and index is not None:
            _iteration(step.loop, kind, index, event["payload"])
        if name is None or not kind.startswith("task."):
            return
        if index is None:
            task = step.tasks.setdefault(name, TaskView(name))
        elif step.loop is not None:
            task = step.loop.active.setdefault(index, TaskView(name))
        else:
            return
        task.name = name
        _advance(task, kind, event, now_s)


def _step(step: StepView, kind: str, payload: dict[str, Any], now_s: float) -> None:
    match kind:
        case "step.completed":
            step.state, step.ended_s = "done", now_s
        case "step.skipped":
            step.state, step.ended_s = "skipped", now_s
        case "step.failed":
            step.state, step.ended_s, step.error = "failed", now_s, error_text(payload.get("error"))
        case "loop.started":
            step.loop = LoopView(int(payload.get("collection_size") or 0))
        case "loop.claimed" if step.loop is not None:
            step.loop.total = int(payload.get("first") or 0) + int(payload.get("iterations") or 0)


def _iteration(loop: LoopView, kind: str, index: int, payload: dict[str, Any]) -> None:
    if kind == "loop.iteration_started":
        return
    loop.active.pop(index, None)
    if kind == "loop.iteration_failed":
        loop.failed += 1
        if len(loop.errors) < MOST_NOTES:
            loop.errors.append(f"[{index}] {error_text(payload.get('error'))}")
    else:
        loop.done += 1


def _advance(task: TaskView, kind: str, event: dict[str, Any], now_s: float) -> None:
    payload = event["payload"]
    match kind:
        case "task.scheduled":
            delay, task.page = delay_of(event), page_of(event)
            task.attempt, task.max_attempts = event.get("attempt") or 1, payload.get("max_attempts") or 1
            task.signal, task.error = payload.get("signal"), None
            task.state = "waiting" if delay > 0 or task.signal else "running"
            task.due_s = now_s + delay if delay > 0 else None
        case "task.started":
            task.state, task.due_s = "running", None
        case "task.processed":
            error = failed(event)
            task.state, task.due_s = ("done", None) if error is None else ("failed", None)
            task.error = None if error is None else error_text(error)
        case "task.retry_scheduled":
            task.state, task.due_s = "waiting", now_s + delay_of(event)
            task.max_attempts = payload.get("max_attempts") or task.max_attempts
            if payload.get("retry_type", "on_error") == "on_error":
                task.attempt = payload.get("next_attempt") or task.attempt + 1
            else:
                task.page, task.attempt, task.error = task.page + 1, 1, None
        case "task.advanced" if payload.get("directive") != "fail" and task.state == "failed":
            task.state = "done"
