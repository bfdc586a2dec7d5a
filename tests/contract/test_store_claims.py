"""What every store keeps of a loop over a cursor, whose elements are counted as they are claimed."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.ids import Address
from shared.store.port import Store
from tests.support.storing import apply_all, created, decide

pytest_plugins = ("tests.support.stores",)
CURSOR = {"kind": "postgres", "max_rows": 2, "process": "row", "tolerate_percent": False}


def claim(page: int, visit: int = 1) -> Address:
    return Address("each", visit, None, "claim", page, 1)


async def looped(store: Store) -> str:
    execution = await created(store)
    await apply_all(store, execution)
    await decide(
        store, execution,
        (p.StepStarted((1,)), Address("each")),
        (p.LoopStarted("row", None, "parallel", 2, cursor=CURSOR), Address("each")),
        (p.LoopClaimed(2, 0, 2, ["a", "b"]), claim(1)),
        (p.IterationCompleted(0, "A"), Address("each", 1, 0)),
        (p.LoopClaimed(1, 2, 1, ["c"]), claim(2)),
        (p.IterationFailed(2, {"kind": "x", "message": "y"}), Address("each", 1, 2)),
    )  # fmt: skip
    return execution


async def test_the_number_of_elements_grows_with_every_claim(store: Store) -> None:
    execution = await looped(store)
    (row,) = await store.iterators(execution)

    assert (row.node, row.iterator_name, row.status) == ("each~1", "row", "running")
    assert (row.total_iterations, row.completed_iterations, row.failed_iterations) == (3, 1, 1)


async def test_a_claim_that_brings_nothing_changes_no_number(store: Store) -> None:
    execution = await looped(store)
    await decide(store, execution, (p.LoopClaimed(0, 3, 0), claim(3)))
    (row,) = await store.iterators(execution)

    assert row.total_iterations == 3


async def test_the_results_have_a_place_for_every_element_that_was_claimed(store: Store) -> None:
    execution = await looped(store)

    assert await store.result(f"loop:{execution}/each~1") == ["A", None, None]
    pages = [page async for page in store.loop_results(f"loop:{execution}/each~1", 10)]
    assert pages == [[(0, "A")]]


async def test_a_loop_taken_up_again_has_the_results_of_both_runs(store: Store) -> None:
    execution = await looped(store)
    await decide(store, execution, (p.StepStarted((), resumes="each~1"), Address("each", 2)))
    assert await store.result(f"loop:{execution}/each~2") == ["A", None, None]

    await decide(
        store, execution, (p.IterationCompleted(2, "C"), Address("each", 2, 2)),
        (p.LoopClaimed(1, 3, 1, ["d"]), claim(1, 2)), (p.IterationCompleted(3, "D"), Address("each", 2, 3)),
    )  # fmt: skip

    assert await store.result(f"loop:{execution}/each~2") == ["A", None, "C", "D"]
    assert await store.result(f"loop:{execution}/each~1") == ["A", None, None]


async def test_a_loop_that_has_claimed_nothing_yet_has_no_results(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    await decide(
        store, execution, (p.StepStarted((1,)), Address("each")),
        (p.LoopStarted("row", None, "parallel", 2, cursor=CURSOR), Address("each")),
    )  # fmt: skip

    assert await store.result(f"loop:{execution}/each~1") == []
