"""The longest a task can wait by its own rules, computed from the Plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, log2

from shared.language.claims import tasks_of
from shared.language.diagnostics import Report
from shared.language.plan import Jump, Number, Plan, Repeat, Retry, Step, Task

_JITTER_CEILING = {"none": 1.0, "half": 1.5, "full": 1.0, "equal": 1.0}
MAX_COUNTED_DELAYS = 10_000
_LARGEST = 1000.0
_CENTURY = 100 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Wait:
    """The most seconds of waiting; where `exact` is false, an expression decides and it may be more."""

    retries_s: float
    pauses_s: float
    exact: bool

    @property
    def total_s(self) -> float:
        """Return waits of retries and pauses together."""
        return self.retries_s + self.pauses_s


def worst_case_wait(task: Task) -> Wait:
    """Return the longest one pass of a task can wait between its attempts."""
    retries = tuple(rule.then for rule in task.rules if isinstance(rule.then, Retry))
    total, exact = _retries_wait(retries)
    budgets = [budget for item in retries if (budget := _known(item.budget)) is not None]
    if retries and len(budgets) == len(retries):
        total, exact = (min(total, max(budgets)) if exact else max(budgets)), True
    pauses, known = _pauses(task)
    return Wait(total, pauses, exact and known)


@lru_cache(maxsize=256)
def _retries_wait(retries: tuple[Retry, ...]) -> tuple[float, bool]:
    """Return the sum of the longest delays, and whether it can be no more; all rules count the same attempts."""
    limits = [(item, int(limit)) for item in retries if (limit := _known(item.attempts)) is not None]
    exact, total, n = len(limits) == len(retries), 0.0, 1
    for _ in range(MAX_COUNTED_DELAYS):
        active = [(item, limit) for item, limit in limits if n < limit]
        if not active:
            return total, exact
        delays = [_delay(item, n) for item, _ in active]
        exact = exact and None not in delays
        steady = all(_is_steady(item, n) for item, _ in active)
        times = min(limit for _, limit in active) - n if steady else 1
        total += times * max((delay for delay in delays if delay is not None), default=0.0)
        n += times
    return total, False


def _is_steady(item: Retry, n: int) -> bool:
    """Say whether all further delays are the same as this one."""
    grown, cap = _grown(item, n), _known(item.max_delay)
    return item.backoff == "fixed" or grown is None or (cap is not None and grown >= cap)


def _pauses(task: Task) -> tuple[float, bool]:
    total, exact = 0.0, True
    for rule in task.rules:
        if isinstance(rule.then, Jump):
            times, delay = _known(rule.then.max_jumps), _known(rule.then.delay)
        elif isinstance(rule.then, Repeat):
            limit = _known(rule.then.max_attempts)
            times, delay = (None if limit is None else limit - 1), _known(rule.then.delay)
        else:
            continue
        if delay == 0:
            continue
        if times is None or delay is None:
            exact = False
        else:
            total += times * delay
    return total, exact


def _delay(item: Retry, n: int) -> float | None:
    """Return the longest delay after attempt n; nothing, where an expression decides and no cap bounds it."""
    bounds = [bound for bound in (_grown(item, n), _known(item.max_delay)) if bound is not None]
    return min(bounds) * _JITTER_CEILING[item.jitter] if bounds else None


def _grown(item: Retry, n: int) -> float | None:
    """Return the delay after attempt n before it is capped, if no expression decides it."""
    base, multiplier = _known(item.delay), _known(item.multiplier)
    if base is None or (multiplier is None and item.backoff == "exponential"):
        return None
    if item.backoff == "linear":
        return base * n
    if item.backoff == "fixed" or base == 0 or multiplier is None:
        return base
    return base * multiplier ** (n - 1) if (n - 1) * log2(multiplier) + log2(base) < _LARGEST else inf


def _known(number: Number | None) -> float | None:
    return float(number) if isinstance(number, int | float) else None


def in_words(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds >= _CENTURY:
        return "more than a hundred years"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def advise_on_waits(plan: Plan, report: Report) -> None:
    """Report the worst case of every task that can wait, and waits that their step's timeout would cut off."""
    for step in plan.steps:
        for task in tasks_of(step):
            wait = worst_case_wait(task)
            if wait.total_s > 0 or not wait.exact:
                _say(step, task, wait, report)


def _say(step: Step, task: Task, wait: Wait, report: Report) -> None:
    written = (rule for rule in task.rules if not rule.implicit)
    place = next((rule.place for rule in written if isinstance(rule.then, Retry | Jump | Repeat)), task.place)
    if wait.exact:
        message = f"task '{task.name}' waits at most {in_words(wait.total_s)} between its attempts"
    else:
        message = f"task '{task.name}' may wait {in_words(wait.total_s)} and more: an expression decides"
    report.info("worst-case-wait", place, message)
    limit = _known(step.timeout)
    if limit is not None and wait.total_s > limit:
        message = (
            f"task '{task.name}' may wait {in_words(wait.total_s)}, but step '{step.name}' ends after {in_words(limit)}"
        )
        report.warning("wait-beyond-timeout", place, message, "raise the timeout, or lower attempts or max_delay")
    for rule in task.rules:
        if isinstance(rule.then, Retry) and (budget := _known(rule.then.budget)) is not None:
            first = _delay(rule.then, 1)
            if first is not None and first > budget:
                message = f"{rule.label}: the first delay of {in_words(first)} is beyond the budget"
                report.warning("wait-beyond-budget", rule.place, message)
