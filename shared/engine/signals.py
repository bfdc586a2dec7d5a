"""Signals: handed to the tasks that wait for them, whichever of the two came first."""

from __future__ import annotations

from shared.contracts.payloads import TaskProcessed
from shared.engine import pipeline
from shared.engine.turn import Turn


def hand_over_next(turn: Turn) -> bool:
    """Give the first signal that someone waits for to the first task that does; say whether there was one."""
    buffered = turn.state.signals
    if not buffered:
        return False
    for run, frame in turn.state.frames():
        if frame.signal in buffered and frame.signal is not None and frame.job_id is not None:
            said = {"name": frame.signal}
            payload = buffered[frame.signal][0]
            outcome = {"status": "success", "result": payload, "error": None, "meta": {}, "signal": said}
            turn.cancelled.append(frame.job_id)
            turn.emit(TaskProcessed(frame.job_id, outcome), run.address(frame, task=True), parent=frame.cause)
            pipeline.proceed(turn, run, frame)
            return True
    return False
