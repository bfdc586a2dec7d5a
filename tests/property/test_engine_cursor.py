"""Loops over a cursor, whatever they are given: every claimed row is worked on once, and the log says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import failure, success
from shared.engine.rehearsal import Reply
from shared.engine.stimuli import Cancel, Redrive
from tests.support.deciding import DOWN, Played, play, program

NO = failure("exception", "no")
TEXT = """
- step: work
  loop:
    cursor: {{ kind: postgres, claim: x, retry: 9 }}
    iterator: row
    tolerate: {tolerate}
    spec: {{ mode: cursor, max_in_flight: {width}, frame: {{ max_rows: {most}, process: {process} }} }}
  tool: {{ kind: noop, input: {{ row: "{{{{ row }}}}" }}, retry: {{ max_attempts: 2, jitter: false }} }}
"""


@dataclass(frozen=True)
class Table:
    """A queue of rows, how its claims go, and which rows fail how often."""

    rows: int
    most: int
    width: int
    process: str
    tolerate: str
    claims: tuple[tuple[int, float, bool], ...]
    failing: frozenset[int]
    pace: tuple[float, ...]

    @property
    def text(self) -> str:
        """Return the playbook that empties it."""
        return TEXT.format(tolerate=self.tolerate, width=self.width, most=self.most, process=self.process)


tables = st.builds(
    Table,
    rows=st.integers(0, 25),
    most=st.integers(1, 6),
    width=st.integers(1, 5),
    process=st.sampled_from(["row", "frame"]),
    tolerate=st.sampled_from(["0", "2", "30%", "100%"]),
    claims=st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0.0, 0.3, 2.0]), st.booleans()), max_size=8).map(
        tuple
    ),
    failing=st.frozensets(st.integers(0, 25), max_size=4),
    pace=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=5).map(tuple),
)


class Tools:
    """Answers claims from the queue, less than is wanted at times, and works on rows."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._left = list(range(table.rows))
        self._asked = 0

    def __call__(self, job: Job) -> Reply:
        if job.address.task == "claim":
            return self._claim(job)
        first = _head(job.input["row"])
        fails = first in self._table.failing and job.address.visit == 1
        return Reply(NO if fails else success(job.input["row"]), self._table.pace[first % len(self._table.pace)])

    def _claim(self, job: Job) -> Reply:
        self._asked += 1
        plans = self._table.claims
        most, takes, fails = plans[self._asked % len(plans)] if plans else (self._table.most, 0.0, False)
        if fails and (job.address.attempt or 1) < 3:
            return Reply(DOWN, takes)
        count = min(most, self._table.most)
        taken, self._left = self._left[:count], self._left[count:]
        return Reply(success({"rows": taken, "row_count": len(taken)}), takes)


def claimed(played: Played) -> list[Any]:
    """Return the elements of all iterations, in the order in which they were claimed."""
    out: list[Any] = []
    for said in played.said(p.LoopClaimed):
        assert said.first == len(out)
        out += said.elements or []
        assert said.iterations == len(said.elements or [])
    return out


def check_order(played: Played, table: Table) -> None:
    """Check that claims came one by one, with room and nothing waiting, and that no more ran at once than may."""
    running: set[int] = set()
    begun = brought = 0
    is_claiming = False
    for event in played.log:
        place = event.address
        match event.payload:
            case p.IterationStarted(index=index):
                running.add(index)
                begun += 1
                assert len(running) <= table.width
            case p.IterationCompleted(index=index) | p.IterationFailed(index=index):
                running.discard(index)
            case p.TaskScheduled() if place is not None and place.task == "claim":
                assert not is_claiming
                assert len(running) < table.width
                assert begun == brought
                is_claiming = True
            case p.LoopClaimed(iterations=count):
                is_claiming = False
                brought += count


def expected_status(table: Table, elements: list[Any]) -> str:
    failed = sum(_head(element) in table.failing for element in elements)
    allowed = len(elements) * int(table.tolerate[:-1]) // 100 if table.tolerate.endswith("%") else int(table.tolerate)
    return "failed" if failed > allowed else "completed"


@given(tables)
def test_every_row_is_worked_on_once_in_the_order_of_the_claims(table: Table) -> None:
    played = play(program(table.text), Tools(table))
    elements = claimed(played)
    counted = Counter(said.index for said in played.said(p.IterationStarted))

    assert played.status == expected_status(table, elements)
    assert set(counted.values()) <= {1}
    check_order(played, table)
    (said,) = played.said(p.LoopCompleted)
    assert said.total_iterations == len(elements)
    if played.status == "completed":
        flat = [row for element in elements for row in (element if isinstance(element, list) else [element])]
        failed = {at for at, item in enumerate(elements) if _head(item) in table.failing}
        assert flat == list(range(table.rows))
        assert sorted(counted) == list(range(len(elements)))
        assert played.result == [None if at in failed else item for at, item in enumerate(elements)]


@given(tables, st.lists(st.sampled_from([0.1, 0.4, 1.1, 2.6, 7.0]), min_size=1, max_size=4))
def test_what_was_claimed_is_worked_on_however_often_the_loop_is_stopped(table: Table, cuts: list[float]) -> None:
    played = play(program(table.text), Tools(table), run_for=0.0)
    for cut in cuts:
        played.go_on(cut)
        if played.status == "running":
            played.tell(Cancel())
        if played.status != "completed":
            played.tell(Redrive())
    played.go_on()
    if played.status == "failed":
        played.tell(Redrive())
        played.go_on()

    elements = claimed(played)
    done = Counter(said.index for said in played.said(p.IterationCompleted))
    assert played.status == "completed"
    assert set(done.values()) <= {1}
    assert all(at in done or _head(item) in table.failing for at, item in enumerate(elements))
    assert played.result == [item if at in done else None for at, item in enumerate(elements)]


def _head(element: Any) -> Any:
    return element[0] if isinstance(element, list) else element
