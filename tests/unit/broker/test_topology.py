"""The topology as a value."""

import pytest

from shared.broker.topology import (
    DEAD,
    DUE,
    EVENTS,
    INCARNATION,
    JOBS,
    OUTCOMES,
    TIMERS,
    UNROUTED,
    Queue,
    Topology,
    jobs_queue,
    pool_topology,
    topology,
)

WHOLE = topology(["default", "gpu.large"])

# Refused, ignored for quorum queues, or gone, in one of 3.10 to 4.x.
REFUSED_ARGUMENTS = {
    "x-expires-auto-delete",
    "x-ha-policy",
    "x-max-priority",
    "x-message-deduplication",
    "x-queue-master-locator",
    "x-queue-mode",
    "x-queue-version",
}
REFUSED_OVERFLOW = "reject-publish-dlx"


def test_every_name_carries_the_version() -> None:
    names = [exchange.name for exchange in WHOLE.exchanges] + [queue.name for queue in WHOLE.queues]

    assert [name for name in names if not name.startswith("redrive.v1.")] == []
    assert len(names) == len({*names}) + len({EVENTS, OUTCOMES, DEAD, UNROUTED})


def test_the_queues_are_those_of_the_services_the_pools_and_the_ladder() -> None:
    names = {queue.name for queue in WHOLE.queues}
    ladder = {f"redrive.v1.delay.p{place}.d{digit}" for place in range(4) for digit in range(1, 16)}

    assert names - ladder == {
        EVENTS,
        OUTCOMES,
        TIMERS,
        DEAD,
        UNROUTED,
        INCARNATION,
        f"{JOBS}.default",
        f"{JOBS}.gpu.large",
    }
    assert ladder < names


@pytest.mark.parametrize("queue", WHOLE.queues, ids=lambda queue: queue.name)
def test_a_queue_asks_only_for_what_old_and_new_brokers_accept(queue: Queue) -> None:
    assert queue.arguments["x-queue-type"] == "quorum"
    assert not REFUSED_ARGUMENTS & queue.arguments.keys()
    assert queue.arguments.get("x-overflow") != REFUSED_OVERFLOW


@pytest.mark.parametrize("queue", [each for each in WHOLE.queues if each.dead_letter_to], ids=lambda each: each.name)
def test_dead_letters_are_kept_until_they_have_arrived(queue: Queue) -> None:
    # Without reject-publish the broker silently falls back to forwarding at most once.
    assert queue.arguments["x-dead-letter-strategy"] == "at-least-once"
    assert queue.arguments["x-overflow"] == "reject-publish"


@pytest.mark.parametrize("queue", [each for each in WHOLE.queues if not each.ttl_ms], ids=lambda each: each.name)
def test_a_queue_that_is_consumed_says_how_often_a_message_may_come_back(queue: Queue) -> None:
    assert queue.delivery_limit is not None


def test_everything_that_is_referred_to_is_declared() -> None:
    exchanges = {exchange.name for exchange in WHOLE.exchanges}
    queues = {queue.name for queue in WHOLE.queues}

    assert {exchange.alternate for exchange in WHOLE.exchanges} - {None} <= exchanges
    assert {queue.dead_letter_to for queue in WHOLE.queues} - {None} <= exchanges
    assert {binding.source for binding in WHOLE.bindings} <= exchanges
    for binding in WHOLE.bindings:
        assert binding.destination in (exchanges if binding.to_exchange else queues)


def test_nothing_that_left_for_a_pool_can_be_unroutable() -> None:
    alternates = {exchange.name: exchange.alternate for exchange in WHOLE.exchanges}

    ways = [JOBS, DUE, *(f"redrive.v1.delay.p{place}" for place in range(4))]
    assert {alternates[name] for name in ways} == {UNROUTED}


def test_the_time_of_a_ladder_queue_is_its_digit_at_its_place() -> None:
    times = {queue.name: queue.ttl_ms for queue in WHOLE.queues if queue.ttl_ms}

    assert times["redrive.v1.delay.p0.d1"] == 50
    assert times["redrive.v1.delay.p0.d15"] == 750
    assert times["redrive.v1.delay.p1.d1"] == 800
    assert times["redrive.v1.delay.p3.d15"] == 15 * 16**3 * 50


def test_a_pool_added_later_fits_what_is_there() -> None:
    assert topology(["a"]) | pool_topology("b") == topology(["a", "b"])
    assert WHOLE | pool_topology("default") == WHOLE
    assert Topology() | WHOLE == WHOLE


@pytest.mark.parametrize("pool", ["", "a b", "a..b", ".a", "*", "a.#", "x" * 129, "ü"])
def test_a_pool_whose_name_would_be_a_pattern_is_refused(pool: str) -> None:
    with pytest.raises(ValueError, match="cannot name a pool"):
        pool_topology(pool)


def test_the_orchestrators_pool_is_the_queue_of_timers() -> None:
    assert jobs_queue("orchestrator") == TIMERS
    assert jobs_queue("default") == f"{JOBS}.default"
