"""How long to wait before the next attempt, and of what parts that time is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MAX_DELAY_S = 366 * 86400.0


class NotADelayError(ValueError):
    """The value that was to be a delay is no finite, non-negative number."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The parts of a retry's delay, all of them evaluated."""

    kind: str
    delay_s: float
    multiplier: float = 2.0
    max_delay_s: float | None = None
    jitter: str = "none"


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay and how it came about."""

    seconds: float
    base_s: float
    factor: float
    capped: bool
    jitter: float
    tries: int
    backoff: Backoff

    def as_json(self) -> dict[str, Any]:
        """Return the parts as the decision record holds them."""
        out: dict[str, Any] = {
            "seconds": self.seconds,
            "backoff": self.backoff.kind,
            "base": self.base_s,
            "factor": self.factor,
            "capped": self.capped,
            "jitter": self.jitter,
        }
        if self.backoff.kind == "exponential":
            out |= {"multiplier": self.backoff.multiplier, "exponent": self.tries - 1}
        if self.capped:
            out["max_delay"] = self.backoff.max_delay_s
        return out


def delay_before_next(backoff: Backoff, tries: int, chance: float) -> Delay:
    """Return the delay after the given try ended: grown, then capped, then shaken by jitter."""
    base = finite(backoff.delay_s, "delay")
    factor = _factor(backoff, tries)
    grown = base * factor
    cap = MAX_DELAY_S if backoff.max_delay_s is None else min(finite(backoff.max_delay_s, "max_delay"), MAX_DELAY_S)
    capped = grown > cap
    shaken = _jitter(backoff.jitter, chance)
    return Delay(round((cap if capped else grown) * shaken, 6), base, factor, capped, shaken, tries, backoff)


def finite(value: object, name: str) -> float:
    """Return a number of seconds, or say why the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotADelayError(f"{name} is {value!r}, not a number")
    number = float(value)
    if math.isnan(number) or math.isinf(number):
        raise NotADelayError(f"{name} is {number}, not a finite number")
    return max(0.0, number)


def _factor(backoff: Backoff, tries: int) -> float:
    if backoff.kind == "linear":
        return float(tries)
    if backoff.kind == "exponential":
        multiplier = finite(backoff.multiplier, "multiplier")
        exponent = tries - 1
        if multiplier > 1 and exponent * math.log2(multiplier) > 256:
            return 2.0**256
        return float(multiplier**exponent)
    return 1.0


def _jitter(kind: str, chance: float) -> float:
    match kind:
        case "half":
            return 0.5 + chance
        case "full":
            return chance
        case "equal":
            return 0.5 + chance / 2
        case _:
            return 1.0
