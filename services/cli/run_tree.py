"""A run as a tree: lines of styled pieces, made from how it stands and what time it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from services.cli.run_progress import LoopView, Progress, StepView, TaskView
from services.cli.run_words import counted_rows, seconds

Line: TypeAlias = list[tuple[str, str]]
"""Pieces of text, each with the name of a style; the texts together are the line."""

BAR = 24
MOST_ITERATIONS = 3
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {"done": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "dim"), "waiting": ("◷", "yellow")}


def tree(progress: Progress, now_s: float, height: int | None = None) -> list[Line]:
    """Return the lines of the tree; with a height, no more than that, the newest steps kept."""
    blocks = [list(_step(step, now_s)) for step in progress.steps.values()]
    head, foot = _head(progress, now_s), _foot(progress)
    hidden = progress.left_out
    if height is not None:
        room = max(1, height - 1 - len(foot))
        while len(blocks) > 1 and sum(map(len, blocks)) + bool(hidden) > room:
            blocks.pop(0)
            hidden += 1
        if blocks and sum(map(len, blocks)) > room:
            blocks[-1] = blocks[-1][:room]
    gap: list[Line] = [[(f"  … {hidden} earlier", "dim")]] if hidden else []
    return [head, *gap, *(line for block in blocks for line in block), *foot]


def text_of(line: Line) -> str:
    """Return a line without its styles."""
    return "".join(piece for piece, _ in line)


def _head(progress: Progress, now_s: float) -> Line:
    took = (progress.ended_s if progress.ended_s is not None else now_s) - progress.began_s
    style = {"completed": "green", "failed": "red", "cancelled": "yellow"}.get(progress.state, "cyan")
    return [(progress.title, "bold"), ("  ", ""), (progress.state, style), (f"  {seconds(took)}", "dim")]


def _foot(progress: Progress) -> list[Line]:
    if progress.ended_s is None:
        return []
    retries = f", {progress.retries} of them again" if progress.retries else ""
    lines: list[Line] = [[(f"  {progress.attempts} attempt{'' if progress.attempts == 1 else 's'}{retries}", "dim")]]
    return [*([[("  " + progress.error, "red")]] if progress.error else []), *lines]


def _step(step: StepView, now_s: float) -> Iterator[Line]:
    visit = f" (visit {step.visit})" if step.visit > 1 else ""
    alone = step.tasks.get(step.name) if len(step.tasks) == 1 else None
    state = "waiting" if alone is not None and alone.state == "waiting" and step.ended_s is None else step.state
    line: Line = [("  ", ""), _mark(state, now_s), (" ", ""), (f"{step.name}{visit}", "")]
    if step.loop is not None:
        line += _bar(step.loop)
    if alone is not None:
        line += _about(alone, now_s)
    if step.stored is not None:
        line.append((f"  {counted_rows(step.stored)} stored", "cyan"))
    if step.ended_s is not None and step.ended_s - step.began_s >= 0.05:
        line.append((f"  {seconds(step.ended_s - step.began_s)}", "dim"))
    yield line
    if step.loop is not None:
        yield from _iterations(step.loop, step, now_s)
    elif alone is None:
        for task in step.tasks.values():
            yield [("      ", ""), _mark(task.state, now_s), (f" {task.name}", ""), *_about(task, now_s)]
    if step.error:
        yield [("      ", ""), (step.error, "red")]


def _bar(loop: LoopView) -> Line:
    through = loop.done + loop.failed
    full = BAR if not loop.total else BAR * through // loop.total
    style = "yellow" if loop.failed else "green"
    bad = [(f", {loop.failed} failed", "red")] if loop.failed else []
    return [("  ", ""), ("━" * full, style), ("╌" * (BAR - full), "dim"), (f" {through}/{loop.total}", ""), *bad]


def _iterations(loop: LoopView, step: StepView, now_s: float) -> Iterator[Line]:
    """Give what is under way, retries first, for these are what one wants to see, and the first errors."""
    if step.ended_s is None:
        busy = sorted(islice(loop.active.items(), 1000), key=lambda item: (item[1].state != "waiting", item[0]))
        for index, task in busy[:MOST_ITERATIONS]:
            own = f" {task.name}" if task.name != step.name else ""
            yield [("      ", ""), _mark(task.state, now_s), (f" [{index}]{own}", ""), *_about(task, now_s)]
        if len(loop.active) > MOST_ITERATIONS:
            yield [(f"      … {len(loop.active) - MOST_ITERATIONS} more under way", "dim")]
    for error in loop.errors:
        yield [("      ", ""), ("✗", "red"), (f" {error}", "red")]


def _about(task: TaskView, now_s: float) -> Line:
    line: Line = [(f"  page {task.page}", "cyan")] if task.page > 1 else []
    if task.attempt > 1:
        line.append((f"  attempt {task.attempt} of {task.max_attempts}", "yellow"))
    if task.state == "waiting" and task.signal:
        line.append((f"  waits for '{task.signal}'", "yellow"))
    elif task.state == "waiting" and task.due_s is not None:
        line.append((f"  in {seconds(task.due_s - now_s)}", "yellow"))
    if task.error and task.state in ("waiting", "failed"):
        line.append((f"  {task.error}", "red"))
    return line


def _mark(state: str, now_s: float) -> tuple[str, str]:
    return _MARKS.get(state) or (_SPINNER[int(now_s * 10) % len(_SPINNER)], "cyan")
