"""Playbook tests: the real decider on simulated time, with outcomes that the test gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.engine.playtest_expect import Mismatch, mismatches
from shared.engine.playtest_file import Findings, Load, Loaded, PlayTest, TestFile, read_tests
from shared.engine.playtest_observed import Observed
from shared.engine.playtest_outcomes import TestStopped
from shared.engine.playtest_stage import Stage
from shared.engine.playtest_timeline import Moment, timeline
from shared.engine.world import MissingValueError

__all__ = [
    "Findings",
    "Load",
    "Loaded",
    "Mismatch",
    "Moment",
    "PlayTest",
    "TestFile",
    "Verdict",
    "read_tests",
    "run_test",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a test ended: what was not as expected, what happened, and what is worth knowing about it."""

    test: PlayTest
    failures: tuple[Mismatch, ...]
    timeline: tuple[Moment, ...]
    remarks: tuple[str, ...]
    duration_s: float

    @property
    def passed(self) -> bool:
        """Say whether everything was as expected."""
        return not self.failures

    def as_json(self, file: str) -> dict[str, Any]:
        """Return the fields that `-o json` promises."""
        failures = [item.as_json() for item in self.failures]
        return {"file": file, "test": self.test.name, "passed": self.passed, "failures": failures}


def run_test(test: PlayTest) -> Verdict:
    """Run one test to its end and judge it; the same test always gives the same verdict."""
    stage = Stage(test)
    stopped: Mismatch | None = None
    try:
        stage.play()
    except TestStopped as problem:
        stopped = Mismatch(problem.what, problem.expected, problem.actual)
    except MissingValueError as problem:
        actual = f"{problem.ref}, results of a loop that are kept outside the engine; test it with fewer elements"
        stopped = Mismatch("end", "values that a test can hold", actual)
    seen = Observed(stage)
    failures = mismatches(test, seen) if stopped is None else [stopped]
    return Verdict(test, tuple(failures), tuple(timeline(stage, test.starts_at)), _remarks(stage), seen.duration_s)


def _remarks(stage: Stage) -> tuple[str, ...]:
    remarks = [remark for answers in stage.answers if (remark := answers.remark()) is not None]
    if stage.unnamed:
        remarks.append(f"no outcome was given for {', '.join(stage.unnamed)}: success with null was taken")
    return tuple(remarks)
