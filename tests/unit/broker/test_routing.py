"""Routing in memory as a broker would."""

import pytest

from shared.broker.routing import Routes, fits
from shared.broker.topology import Binding, Exchange, Queue, Topology


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#", "", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b", False),
        ("*.3.#", "1.3.0.4.gpu.large", True),
        ("*.3.#", "3.1.0.4.gpu.large", False),
    ],
)
def test_a_star_is_one_word_and_a_hash_any_number(pattern: str, key: str, expected: bool) -> None:
    assert fits(tuple(pattern.split(".")), tuple(key.split("."))) is expected


ROUTES = Routes(
    Topology(
        exchanges=(
            Exchange("all", "fanout"),
            Exchange("exact", "direct", alternate="all"),
            Exchange("words", "topic"),
        ),
        queues=(Queue("q1"), Queue("q2"), Queue("rest")),
        bindings=(
            Binding("all", "rest", ""),
            Binding("exact", "q1", "one"),
            Binding("words", "q1", "a.#"),
            Binding("words", "q1", "#.b"),
            Binding("words", "q2", "*.b"),
            Binding("words", "exact", "via.*", to_exchange=True),
        ),
    )
)


@pytest.mark.parametrize(
    ("exchange", "key", "queues"),
    [
        ("", "q2", ["q2"]),
        ("", "none", []),
        ("all", "whatever", ["rest"]),
        ("exact", "one", ["q1"]),
        ("exact", "two", ["rest"]),
        ("words", "a.b", ["q1", "q2"]),
        ("words", "c", []),
        ("words", "via.two", ["rest"]),
    ],
)
def test_a_message_reaches_each_queue_that_matches_once(exchange: str, key: str, queues: list[str]) -> None:
    assert ROUTES.queues(exchange, key) == queues


def test_an_exchange_that_is_not_there_is_not_known() -> None:
    assert ROUTES.knows("")
    assert ROUTES.knows("words")
    assert not ROUTES.knows("none")
