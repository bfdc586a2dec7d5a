"""Any delay, through the ladder's digits."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.broker.ladder import HORIZON_S, MAX_KEY_BYTES, entry, steps
from shared.broker.routing import Routes
from shared.broker.topology import PLACES, RADIX, UNIT_MS, jobs_queue, topology

DELAYS = st.floats(min_value=0, max_value=HORIZON_S)
POOLS = st.from_regex(r"[A-Za-z0-9_-]{1,40}(\.[A-Za-z0-9_-]{1,40}){0,2}", fullmatch=True)
UNIT_S = UNIT_MS / 1000
TOLERANCE_S = 1e-9

WHOLE = topology(["default"])
ROUTES = Routes(WHOLE)
QUEUES = {queue.name: queue for queue in WHOLE.queues}


@given(DELAYS)
def test_the_digits_add_up_to_the_delay_or_less_than_a_unit_more(delay_s: float) -> None:
    digits = steps(delay_s)

    total_s = sum(digit * RADIX**place for place, digit in enumerate(reversed(digits))) * UNIT_MS / 1000
    assert len(digits) == PLACES
    assert all(0 <= digit < RADIX for digit in digits)
    assert delay_s - TOLERANCE_S <= total_s < delay_s + UNIT_S + TOLERANCE_S


@given(st.integers(min_value=0, max_value=int(HORIZON_S * 1000) // UNIT_MS))
def test_whole_units_are_not_rounded(units: int) -> None:
    digits = steps(timedelta(milliseconds=units * UNIT_MS).total_seconds())

    assert sum(digit * RADIX**place for place, digit in enumerate(reversed(digits))) == units


@given(DELAYS, POOLS)
def test_a_key_fits_and_holds_the_pool(delay_s: float, pool: str) -> None:
    _, key = entry(delay_s, pool)

    assert len(key.encode()) <= MAX_KEY_BYTES
    assert key == pool or key.endswith(f".{pool}")


@given(DELAYS)
def test_the_way_through_the_queues_takes_the_delay_and_ends_at_the_pool(delay_s: float) -> None:
    exchange, key = entry(delay_s, "default")
    waited_ms, visited = 0, []

    while True:
        (name,) = ROUTES.queues(exchange, key)
        visited.append(name)
        queue = QUEUES[name]
        if queue.ttl_ms is None or queue.dead_letter_to is None:
            break
        waited_ms += queue.ttl_ms
        exchange = queue.dead_letter_to

    assert visited[-1] == jobs_queue("default")
    assert len(visited) - 1 == sum(digit > 0 for digit in steps(delay_s))
    assert delay_s - TOLERANCE_S <= waited_ms / 1000 < delay_s + UNIT_S + TOLERANCE_S
