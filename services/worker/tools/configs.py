"""Configurations as typed values: rendered data checked before anything runs."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from shared.contracts.outcomes import Failure, Outcome
from shared.templates.durations import parse_duration

MAX_PROBLEMS = 10
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMG]?)(i?)B?\s*", re.I)
_FACTORS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}
_BINARY_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Config(BaseModel):
    """The configuration of a tool; a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class BadConfigError(Exception):
    """The configuration is not what the tool takes; `outcome` says what is wrong, without the values."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__((outcome.error or {}).get("message"))
        self.outcome = outcome


C = TypeVar("C", bound=Config)


def read_config(kind: str, model: type[C], data: dict[str, Any]) -> C:
    """Return the typed configuration, or raise BadConfigError."""
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        found = problem.errors(include_url=False, include_input=False, include_context=False)
        raise bad_config(kind, *[_said(item["loc"], item["msg"]) for item in found]) from None


def bad_config(kind: str, *problems: str) -> BadConfigError:
    """Return the error that says what is wrong with a configuration."""
    message = f"{kind}: {'; '.join(problems[:MAX_PROBLEMS])}"
    error = Failure("expression", message, details={"problems": list(problems[:MAX_PROBLEMS])})
    return BadConfigError(Outcome("error", error=error.as_json()))


def parse_size(value: object) -> int:
    """Return bytes for a number or a text such as '64KB' or '10 MiB'; raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return int(value)
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("a size is a number of bytes, or a text such as 64KB or 10MB")
    factors = _BINARY_FACTORS if found[3] else _FACTORS
    return int(float(found[1]) * factors[found[2].upper()])


def _parse_seconds(value: object) -> float:
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("a duration is a number of seconds, or a text such as 500ms or 2m") from None


def _texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _said(place: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in place)
    message = message.removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


Seconds = Annotated[float, BeforeValidator(_parse_seconds)]
Size = Annotated[int, BeforeValidator(parse_size)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
