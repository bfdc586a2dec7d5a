"""Comparing what a test expects with what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.contracts.events import Event, types_named
from shared.engine.playtest_file import PlayTest
from shared.engine.playtest_observed import Observed
from shared.templates.durations import parse_duration

CLOSE_ENOUGH_S = 1e-6


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expectation that was not met."""

    what: str
    expected: Any
    actual: Any

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `-o json` promises."""
        return {"what": self.what, "expected": self.expected, "actual": self.actual}


def mismatches(test: PlayTest, seen: Observed) -> list[Mismatch]:
    """Return every expectation that was not met, in the order of importance."""
    expect = test.expect
    wanted = expect.get("status", "failed" if "error" in expect else "completed")
    out: list[Mismatch] = []
    if seen.status != wanted:
        out.append(Mismatch("status", wanted, seen.status))
    else:
        out += _results(expect, seen)
    out += _error(expect, seen)
    out += _steps(expect, seen)
    for key, compare in _BY_TASK.items():
        for text, value in expect.get(key, {}).items():
            out += compare(f"{key}.{text}", value, test, text, seen)
    if "duration" in expect and not _is_within(expect["duration"], seen.duration_s, parse_duration):
        out.append(Mismatch("duration", expect["duration"], round(seen.duration_s, 6)))
    if "ctx" in expect:
        out += _part("ctx", expect["ctx"], seen.ctx)
    return [*out, *_events(expect, seen)]


def same(expected: Any, actual: Any) -> bool:
    """Say whether two values are equal as JSON: true is not 1, 1 is 1.0."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return bool(expected == actual)


def contains(actual: Any, part: Any) -> bool:
    """Say whether a value has this part: keys that are not named do not matter, at any depth."""
    if isinstance(part, dict) and isinstance(actual, dict):
        return all(key in actual and contains(actual[key], part[key]) for key in part)
    if isinstance(part, list) and isinstance(actual, list):
        return len(part) == len(actual) and all(map(contains, actual, part))
    return same(part, actual)


def narrowed(actual: Any, part: Any) -> Any:
    """Return a value without what a part says nothing about, so that the two can be read side by side."""
    if isinstance(part, dict) and isinstance(actual, dict):
        return {key: narrowed(actual[key], part[key]) for key in part if key in actual}
    if isinstance(part, list) and isinstance(actual, list):
        rest = actual[len(part) :]
        return [narrowed(one, other) for one, other in zip(actual, part, strict=False)] + rest
    return actual


def _results(expect: Mapping[str, Any], seen: Observed) -> Iterator[Mismatch]:
    if "result" in expect and not same(expect["result"], seen.result):
        yield Mismatch("result", expect["result"], seen.result)
    if "result_contains" in expect:
        yield from _part("result_contains", expect["result_contains"], seen.result)


def _part(what: str, expected: Any, actual: Any) -> Iterator[Mismatch]:
    if not contains(actual, expected):
        yield Mismatch(what, expected, narrowed(actual, expected))


def _error(expect: Mapping[str, Any], seen: Observed) -> Iterator[Mismatch]:
    if "error" not in expect:
        return
    wanted, found = expect["error"] or {}, seen.error
    if found is None:
        if expect.get("status", "failed") == seen.status:
            yield Mismatch("error", wanted, None)
        return
    for key, value in wanted.items():
        actual = found.get(key)
        met = value in str(actual) if key == "message" else same(value, actual)
        if not met:
            yield Mismatch(f"error.{key}", value, actual)


def _steps(expect: Mapping[str, Any], seen: Observed) -> Iterator[Mismatch]:
    path = seen.path
    if "path" in expect and expect["path"] != path:
        yield Mismatch("path", expect["path"], path)
    reached = [step for step in expect.get("not_reached", []) if step in path]
    if reached:
        yield Mismatch("not_reached", expect["not_reached"], f"started: {', '.join(reached)}")


def _attempts(what: str, expected: Any, test: PlayTest, text: str, seen: Observed) -> Iterator[Mismatch]:
    count = len(seen.attempts(test.patterns[text]))
    if not _is_within(expected, count, float):
        yield Mismatch(what, expected, count)


def _delays(what: str, expected: Any, test: PlayTest, text: str, seen: Observed) -> Iterator[Mismatch]:
    actual = seen.delays(test.patterns[text])
    pairs = zip(expected, actual, strict=False)
    if len(expected) != len(actual) or not all(_is_within(one, other, parse_duration) for one, other in pairs):
        yield Mismatch(what, expected, [round(seconds, 6) for seconds in actual])


def _calls(what: str, expected: Any, test: PlayTest, text: str, seen: Observed) -> Iterator[Mismatch]:
    actual = [item.given for item in seen.attempts(test.patterns[text])]
    return _each(what, expected, actual)


def _sinks(what: str, expected: Any, test: PlayTest, text: str, seen: Observed) -> Iterator[Mismatch]:
    return _each(what, expected, seen.writes(test.patterns[text]))


def _each(what: str, expected: list[Any], actual: list[Any]) -> Iterator[Mismatch]:
    """Compare one by one what was given, each as a part."""
    if len(expected) != len(actual):
        yield Mismatch(f"{what} (how many)", len(expected), len(actual))
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        yield from _part(f"{what}[{index}]", one, other)


_BY_TASK: dict[str, Callable[[str, Any, PlayTest, str, Observed], Iterator[Mismatch]]] = {
    "attempts": _attempts,
    "delays": _delays,
    "calls": _calls,
    "sinks": _sinks,
}


def _is_within(expected: Any, actual: float, number: Callable[[Any], float]) -> bool:
    if not isinstance(expected, dict):
        return abs(number(expected) - actual) <= CLOSE_ENOUGH_S
    low, high = expected.get("at_least"), expected.get("at_most")
    high_enough = low is None or actual >= number(low) - CLOSE_ENOUGH_S
    return high_enough and (high is None or actual <= number(high) + CLOSE_ENOUGH_S)


def _events(expect: Mapping[str, Any], seen: Observed) -> Iterator[Mismatch]:
    """Look for the expected events in their order; the first that is missing is told with what came instead."""
    left = iter(seen.log)
    wanted: list[str] = expect.get("events", [])
    for index, name in enumerate(wanted):
        if not any(_is_called(event, name) for event in left):
            after = f" after {', '.join(wanted[:index])}" if index else ""
            names = [event.alias for event in seen.log]
            yield Mismatch(f"events[{index}]", f"{name}{after}", names)
            return


def _is_called(event: Event, name: str) -> bool:
    if name in (event.type, event.alias):
        return True
    if event.type == "task.processed":
        return name == "action_failed" and event.alias == "action_error"
    return event.type in types_named(name)
