"""How many decisions a second the decider takes, and how large and how costly a long loop's state is."""

from __future__ import annotations

import json
import time
from itertools import count

from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from shared.engine.program import Program
from shared.engine.rehearsal import Rehearsal
from shared.engine.snapshot import snapshot
from shared.language.compile import compile_playbook

OK = success()
LOOP_SIZES = (100, 1_000, 10_000, 100_000)
IN_FLIGHT = 100


def plain_steps(steps: int) -> Program:
    """Return a chain of steps that do nothing."""
    lines = ["apiVersion: redrive.io/v1", "workflow:"]
    for index in range(steps):
        lines += [f"  - step: s{index}", "    tool: noop"]
        if index < steps - 1:
            lines.append(f"    next: s{index + 1}")
    return _program("\n".join(lines))


def long_loop(iterations: int) -> Program:
    """Return one step that loops over a number."""
    return _program(
        "apiVersion: redrive.io/v1\nworkflow:\n  - step: a\n"
        f"    loop: {{ in: {iterations}, mode: parallel, max_in_flight: {IN_FLIGHT} }}\n    tool: noop\n"
    )


def _program(text: str) -> Program:
    plan = compile_playbook(text).plan
    assert plan is not None
    return Program(plan)


def decisions_per_second(executions: int = 1_000, steps: int = 5) -> float:
    """Return how many stimuli a second are decided, simulated broker and worker included."""
    program = plain_steps(steps)
    rehearsal = Rehearsal(lambda job: OK, keep_log=False)
    began = time.perf_counter()
    for index in range(executions):
        rehearsal.submit(program, execution_id=f"e{index}")
        rehearsal.run()
    took = time.perf_counter() - began
    return executions * (1 + 2 * steps) / took


def loop_figures(iterations: int) -> dict[str, float]:
    """Return the largest snapshot of a loop and what its first and last events cost."""
    program = long_loop(iterations)
    largest = 0
    answered = count(1)
    probes = {max(1, iterations * part // 10) for part in range(1, 10)}
    marks: list[float] = []

    def respond(job: Job) -> Outcome:
        nonlocal largest
        number = next(answered)
        if number % max(1, iterations // 10) == 0:
            marks.append(time.perf_counter())
        if number in probes:
            largest = max(largest, len(json.dumps(snapshot(run.state))))
        return OK

    rehearsal = Rehearsal(respond, keep_log=False)
    run = rehearsal.submit(program)
    began = time.perf_counter()
    rehearsal.run()
    took = time.perf_counter() - began
    tenths = [b - a for a, b in zip([began, *marks], marks, strict=False)]
    drift = min(tenths[-3:]) / min(tenths[:3]) if len(tenths) >= 6 else 1.0
    return {
        "seconds": round(took, 3),
        "iterations_per_s": round(iterations / took),
        "state_bytes": largest,
        "last_to_first": round(drift, 2),
    }


def main() -> None:
    """Print the figures, and as the last line all of them as JSON."""
    rate = max(decisions_per_second() for _ in range(3))
    print(f"decisions/s, plain steps: {rate:,.0f}")
    loops = {}
    for size in LOOP_SIZES:
        loops[size] = loop_figures(size)
        print(f"loop of {size:>7,}: {loops[size]}")
    print(json.dumps({"decisions_per_s": round(rate), "loops": loops}))


if __name__ == "__main__":
    main()
