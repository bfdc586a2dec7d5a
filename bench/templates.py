"""Time the evaluation of typical templates: a table, then one line of JSON with microseconds per evaluation."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from time import perf_counter

from shared.templates.expressions import Helpers, compile_template
from shared.templates.truth import StatusText

SCOPE = {
    "workload": {"api_url": "http://127.0.0.1:9000", "page_size": 50},
    "iter": {"page": 7, "index": 3},
    "execution_id": "01HZX3",
    "outcome": {
        "status": StatusText("error"),
        "error": {"kind": "rate_limit", "message": "Too Many Requests: timeout"},
        "http": {"status": 503, "headers": {"retry-after": "7"}},
        "result": {"items": [{"id": number} for number in range(50)], "paging": {"hasMore": True}},
    },
}
HELPERS = Helpers(now=datetime(2024, 1, 1, tzinfo=UTC), random=lambda: 0.25)
CASES = {
    "simple condition": "{{ outcome.status == 'error' }}",
    "retry rule": "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}",
    "native value": "{{ (iter.page | int) + 1 }}",
    "mixed text": "{{ workload.api_url }}/users?page={{ iter.page }}&size={{ workload.page_size }}",
    "pure path": "{{ outcome.http.headers['retry-after'] }}",
}
ROUNDS = 7


def main() -> None:
    """Print what one evaluation costs."""
    loops = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    measured = {name: evaluation_us(text, loops) for name, text in CASES.items()}
    measured["compile cold"] = compilation_us(CASES["retry rule"], max(1, loops // 20))
    for name, microseconds in measured.items():
        print(f"{name:<18} {microseconds:8.2f} µs")
    print(json.dumps({name.replace(" ", "_"): round(value, 2) for name, value in measured.items()}))


def evaluation_us(text: str, loops: int) -> float:
    """Time one evaluation of a compiled template, its cache look-up included."""
    return _best_us(lambda: compile_template(text).evaluate(SCOPE, HELPERS), loops)


def compilation_us(text: str, loops: int) -> float:
    """Time one compilation of a template that was never seen before."""
    numbers = count()
    return _best_us(lambda: compile_template(text.replace("503", str(1000 + next(numbers)))), loops)


def _best_us(work: Callable[[], object], loops: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begun = perf_counter()
        for _ in range(loops):
            work()
        best = min(best, perf_counter() - begun)
    return best / loops * 1_000_000


if __name__ == "__main__":
    main()
