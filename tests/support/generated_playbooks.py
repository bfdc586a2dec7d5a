"""Playbooks that Hypothesis writes, and what their tools answer.

A step reads and writes only `ctx` keys of its own, so that what a playbook says depends on time alone. A *steady*
playbook depends not even on that: nothing in it says differently when answers come in another order.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from hypothesis import strategies as st

from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, http_failure, success
from shared.language.compile import compile_playbook
from shared.language.plan import Plan

Draw: TypeAlias = st.DrawFn
Track: TypeAlias = tuple[Outcome, ...]
MAX_DURATION_US = 1_000_000
BENIGN = success({"v": 0, "more": False, "rows": []})

SUCCESSES = [success({"v": v, "more": more, "rows": list(range(v))}) for v in range(4) for more in (False, True)]
FAILURES = [http_failure(503), http_failure(503), http_failure(429), http_failure(404), failure("timeout", "too slow")]
delays = st.sampled_from([0, 0.5, 1, "250ms", "{{ workload.pause }}"])
_seldom = st.sampled_from([False, False, True])
_failures = st.lists(st.sampled_from(FAILURES), max_size=3)
_successes = st.lists(st.sampled_from(SUCCESSES), min_size=1, max_size=3)
_track = st.tuples(_failures, _successes, _failures).map(lambda parts: tuple(parts[0] + parts[1] + parts[2]))
tracks = st.lists(_track, min_size=1, max_size=3).map(tuple)


@dataclass(frozen=True)
class Scenario:
    """A playbook, and per task the answers of its runs; a task whose answers are used up succeeds."""

    text: str
    answers: dict[tuple[str, str], tuple[Track, ...]] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan:
        """Return the Plan of the playbook."""
        found = compile_playbook(self.text)
        assert found.plan is not None, found.errors
        return found.plan

    def answer(self, step: str, visit: int, iteration: int | None, task: str, number: int) -> Outcome:
        """Return the outcome of a task's run, counted from 0 within the frame."""
        given = self.answers.get((step, task), ((),))
        track = given[(visit + (iteration or 0)) % len(given)]
        return track[number] if number < len(track) else BENIGN

    def duration_us(self, *run: object) -> int:
        """Return how long a run takes: any two runs differ, so that hardly ever two of them end at once."""
        return 1 + zlib.crc32(repr(run).encode()) % MAX_DURATION_US


class Tools:
    """The tools of one execution of a scenario; a job that is handed over again is answered as before."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._numbers: dict[str, int] = {}
        self._counts: Counter[tuple[str, str | None]] = Counter()

    def run(self, job: Job) -> tuple[Outcome, float]:
        """Return the outcome of a job, and how many seconds it takes."""
        at = job.address
        if job.job_id not in self._numbers:
            self._numbers[job.job_id] = self._counts[at.frame, at.task]
            self._counts[at.frame, at.task] += 1
        run = (at.step, at.visit, at.iteration, at.task or "", self._numbers[job.job_id])
        return self._scenario.answer(*run), self._scenario.duration_us(*run) / 1_000_000


@st.composite
def scenarios(draw: Draw, *, steady: bool = False, wild: bool = False) -> Scenario:
    """Draw a playbook of one to five steps with the answers of its tasks.

    A *wild* one has arcs from anywhere to anywhere and joins of every kind; it only has to end somehow.
    """
    count = draw(st.integers(1, 5))
    ways = [draw(_forward(index, count)) for index in range(count)]
    document = _document(draw, [_step(draw, index, ways, steady, wild) for index in range(count)], steady)
    named = [(step["step"], task["name"]) for step in document["workflow"] for task in step.get("tool", ())]
    return Scenario(json.dumps(document, indent=1), {name: draw(tracks) for name in named})


def _document(draw: Draw, steps: list[dict[str, Any]], steady: bool) -> dict[str, Any]:
    workload = {
        "yes": True,
        "no": False,
        "flag": draw(st.booleans()),
        "count": draw(st.sampled_from([3, 2, 4, 1, 0])),
        "rows": draw(st.sampled_from([[1, 2, 0], [3, 3], [2], []])),
        "pause": draw(st.sampled_from([0.25, 1, "1500ms"])),
    }
    on_failure = "finish" if steady else draw(st.sampled_from(["fail_fast", "finish"]))
    document: dict[str, Any] = {
        "apiVersion": "redrive.io/v1",
        "kind": "Playbook",
        "metadata": {"name": "generated", "path": "tests/generated"},
        "executor": {"spec": {"on_failure": on_failure}},
        "workload": workload,
        "workflow": steps,
    }
    if any(_fans_out(step.get("next")) for step in steps) or draw(st.booleans()):
        document["result"] = {
            step["step"]: "{{ %s | default('never') }}" % step["step"]  # noqa: UP031
            for step in steps
        }
    return document


def _fans_out(arcs: Any) -> bool:
    return isinstance(arcs, list) or (isinstance(arcs, dict) and "mode" in arcs)


def _forward(index: int, count: int) -> st.SearchStrategy[list[int]]:
    """Draw the later steps that a step has arcs to; one may be named twice."""
    later = range(index + 1, min(index + 4, count))
    if not later:
        return st.just([])
    return st.lists(st.sampled_from(later), min_size=1, max_size=3)


def _step(draw: Draw, index: int, ways: list[list[int]], steady: bool, wild: bool) -> dict[str, Any]:
    name = f"s{index}"
    step: dict[str, Any] = {"step": name}
    if wild and draw(_seldom):
        step["join"] = draw(st.sampled_from(["none", {"mode": "all"}, {"mode": "any"}, {"mode": 2}]))
    if not steady and draw(st.integers(0, 9)) == 1:
        step["timeout"] = draw(st.sampled_from([1, "2500ms"]))
    if draw(_seldom):
        step["when"] = draw(st.sampled_from(["{{ workload.flag }}", "{{ workload.no }}", "{{ workload.count > 1 }}"]))
    tasks = draw(st.sampled_from([1, 2, 2, 3, 0]))
    loop = _loop(draw, steady) if tasks and draw(st.integers(0, 2)) == 0 else None
    if loop is not None:
        step["loop"] = loop
    if tasks:
        alone = steady and loop is not None and loop.get("mode") == "parallel"
        step["tool"] = [_task(draw, name, number, tasks, loop, steady, alone) for number in range(tasks)]
    back = draw(st.integers(0, index)) if wild and draw(st.booleans()) else _back(draw, index, ways)
    if back is not None or draw(st.booleans()):
        step["set"] = {f"ctx.{name}_done": "{{ (ctx.%s_done | default(0)) + 1 }}" % name}  # noqa: UP031
    arcs = _next(draw, name, ways[index], back, wild)
    if arcs is not None:
        step["next"] = arcs
    return step


def _back(draw: Draw, index: int, ways: list[list[int]]) -> int | None:
    """Draw an earlier step to go back to: itself, the one before it, or the entry when nothing else can run."""
    choices = [index]
    if index and ways[index - 1] == [index] and sum(index in way for way in ways) == 1:
        choices.append(index - 1)
    if index == len(ways) - 1 and all(ways[:index]):
        choices.append(0)
    return draw(st.sampled_from(choices)) if draw(_seldom) else None


def _next(
    draw: Draw, name: str, targets: list[int], back: int | None, wild: bool
) -> dict[str, Any] | list[str] | str | None:
    if back is None and len(targets) == 1 and draw(st.booleans()):
        return f"s{targets[0]}"
    if back is None and len(targets) > 1 and draw(_seldom):
        return [f"s{target}" for target in targets]
    arcs = [_arc(draw, name, target, number) for number, target in enumerate(targets)]
    if back is not None:
        again = "{{ event.name == 'step.completed' and ctx.%s_done < 3 }}" % name  # noqa: UP031
        arcs.insert(0, {"step": f"s{back}", "when": again})
    if len(targets) > 0 and draw(_seldom):
        arcs.append({"else": {"step": f"s{targets[-1]}"}})
    if not arcs:
        return None
    inclusive = (back is None or wild) and draw(st.booleans())
    return {"mode": "inclusive", "arcs": arcs} if inclusive else {"arcs": arcs}


def _arc(draw: Draw, name: str, target: int, number: int) -> dict[str, Any]:
    guards = [
        None,
        "{{ workload.yes }}",
        "{{ workload.flag }}",
        "{{ not workload.flag }}",
        "{{ workload.count > 1 }}",
        "{{ %s.v == 1 }}" % name,  # noqa: UP031
        "{{ ctx.%s_done == 1 }}" % name,  # noqa: UP031
        "{{ event.name == 'step.completed' }}",
        "{{ event.name == 'step.failed' }}",
        "{{ event.name == 'step.skipped' }}",
        "{{ outcome.status == 'error' }}",
        "{{ event.name in ['step.completed', 'step.failed'] }}",
    ]
    arc: dict[str, Any] = {"step": f"s{target}"}
    guard = draw(st.sampled_from(guards))
    if guard is not None:
        arc["when"] = guard
    if draw(_seldom):
        arc["args"] = {f"{name}_{number}": "{{ %s.v | default(9) }}" % name}  # noqa: UP031
    if draw(_seldom):
        arc["set"] = {f"ctx.{name}_way": number}
    return arc


def _loop(draw: Draw, steady: bool) -> dict[str, Any]:
    loop: dict[str, Any] = {
        "in": draw(st.sampled_from([3, [2, 0, 1, 2], "{{ workload.rows }}", "{{ workload.count }}"])),
        "iterator": "item",
    }
    parallel = draw(st.booleans())
    if parallel:
        loop["mode"] = "parallel"
    if parallel and draw(st.booleans()):
        loop["max_in_flight"] = draw(st.integers(1, 3))
    if draw(_seldom):
        loop["where"] = draw(st.sampled_from(["{{ item != 1 }}", "{{ item > 0 }}", "{{ iter.index > 0 }}"]))
    if draw(_seldom):
        loop["chunk_size"] = 2
    if draw(_seldom):
        loop["collect"] = "none"
    if parallel and steady:
        loop["on_failure"] = "continue"
    else:
        tolerate = draw(st.sampled_from([None, 1, "50%", "all"]))
        loop.update({"on_failure": "continue"} if tolerate == "all" else {"tolerate": tolerate} if tolerate else {})
    return loop


def _task(
    draw: Draw, step: str, number: int, count: int, loop: dict[str, Any] | None, steady: bool, alone: bool
) -> dict[str, Any]:
    """Draw a task; `alone` says that it may not write what its neighbours in the loop write too."""
    call = {"try": "{{ _task }}#{{ _attempt }}", "n": "{{ iter.n | default(0) }}", "seen": "{{ seen | default(0) }}"}
    if not alone:
        call["c"] = "{{ ctx.%s_c | default(0) }}" % step  # noqa: UP031
    if loop is not None:
        call |= {"item": "{{ item }}", "at": "{{ iter.index }}", "last": "{{ iter.last }}"}
    task: dict[str, Any] = {"name": f"t{number}", "kind": "http", "url": "http://localhost/", "params": call}
    if draw(_seldom):
        task["args"] = {"given": "{{ args.s0_0 | default('none') }}"}
    if draw(_seldom):
        task["set"] = {"seen": "{{ outcome.result.v | default(7) }}"}
    shape = draw(st.integers(0, 4))
    if shape == 1:
        task["retry"] = _retry_block(draw, count, steady)
    elif shape > 1:
        task["eval"] = _rules(draw, step, count, steady, alone)
    return task


ON_ERROR = ("{{ outcome.status == 'error' }}", "{{ outcome.http.status == 503 }}", "{{ outcome.error.retryable }}")
ON_VALUE = (
    "{{ outcome.status == 'success' and outcome.result.v == 2 }}",
    "{{ outcome.result.more }}",
    "{{ workload.flag and outcome.result.v == 1 }}",
)
ON_SUCCESS = (*ON_VALUE, "{{ outcome.status == 'success' }}", "{{ workload.yes }}")


def _rules(draw: Draw, step: str, count: int, steady: bool, alone: bool) -> list[dict[str, Any]]:
    """Draw rules for errors and for successes, in any order; a rule that can retry for ever is not among them."""
    rules = []
    for _ in range(draw(st.integers(1, 3))):
        do = draw(st.sampled_from(["retry", "retry", "retry", "jump", "continue", "break", "fail"]))
        whens = [*ON_ERROR, *ON_ERROR, *(ON_VALUE if do in ("retry", "fail") else ON_SUCCESS)]
        rules.append(_rule(draw, step, do, draw(st.sampled_from(whens)), count, steady, alone))
    if draw(_seldom):
        rules.append({"else": {"do": draw(st.sampled_from(["continue", "break", "fail"]))}})
    return rules


def _rule(draw: Draw, step: str, do: str, when: str, count: int, steady: bool, alone: bool) -> dict[str, Any]:
    rule: dict[str, Any] = {"expr": when, "do": do}
    if do == "retry":
        rule |= _attempts(draw, "attempts", count, steady)
    if do == "jump":
        rule |= {"to": f"t{draw(st.integers(0, count - 1))}", "max_jumps": draw(st.integers(1, 3))}
        if draw(st.booleans()):
            rule["delay"] = draw(delays)
    if draw(_seldom):
        rule["set_iter"] = {"n": "{{ (iter.n | default(0)) + 1 }}"}
    if draw(_seldom):
        counter = "{{ (ctx.%s_c | default(0)) + 1 }}" % step  # noqa: UP031
        rule["set_ctx"] = {f"{step}_c": 1 if alone else draw(st.sampled_from([1, counter]))}
    return rule


def _attempts(draw: Draw, word: str, count: int, steady: bool) -> dict[str, Any]:
    backoff = draw(st.sampled_from(["none", "fixed", "linear", "exponential"]))
    options: dict[str, Any] = {word: draw(st.sampled_from([2, 3, 4, 1])), "backoff": backoff, "delay": draw(delays)}
    if backoff == "exponential":
        options["multiplier"] = draw(st.sampled_from([1, 1.5, 3]))
    if draw(_seldom):
        options["max_delay"] = draw(st.sampled_from([0.75, 2]))
    if not steady and draw(_seldom):
        options["budget"] = draw(st.sampled_from([0.5, 1, "2s"]))
    label = f"t{draw(st.integers(0, count - 1))}"
    follows = draw(st.sampled_from(["continue", "break", {"jump": label}, "fail", None]))
    return options if follows is None else {**options, "on_exhausted": follows}


def _retry_block(draw: Draw, count: int, steady: bool) -> dict[str, Any]:
    """Draw the older block: more attempts after errors, more pages after successes, or both."""
    block: dict[str, Any] = {}
    which = draw(st.sampled_from(["both", "errors", "pages"]))
    if which != "pages":
        block["on_error"] = {**_attempts(draw, "max_attempts", count, steady), "jitter": False}
        if draw(_seldom):
            block["on_error"]["when"] = "{{ status_code == 503 }}"
    if which != "errors":
        pages: dict[str, Any] = {
            "while": draw(st.sampled_from(["{{ response.more }}", "{{ response.v > 0 }}"])),
            "max_attempts": draw(st.sampled_from([3, 4, 2, 1])),
            "next_call": {"params": {"page": "{{ response.v + 1 }}"}},
            "collect": draw(st.sampled_from(["append", "replace", "collect"])),
        }
        if pages["collect"] == "append":
            pages["merge_path"] = "rows"
        block["on_success"] = pages
    return block
