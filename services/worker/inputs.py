"""What a job is given, made whole: references loaded, expressions that waited for the worker evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.worker.keychain import Borrowed
from services.worker.loading import Loading, Pieces, TooMuchError, filled, mappings
from services.worker.values import MissingValueError, Values
from shared.contracts.deferred import MisplacedExpressionError, expressions_at, finished
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Failure, Outcome, failure
from shared.contracts.references import is_reference
from shared.engine.chance import SeededChance
from shared.templates.expressions import EvaluationError, Helpers, Template, TemplateSyntaxProblem, compile_template

MAX_LOADED_BYTES = 256 * 1024 * 1024
KEYCHAIN = "keychain"
_FIRST_NAME = re.compile(r"[.\[]")


class InputError(Exception):
    """A job's inputs cannot be made whole; `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__((outcome.error or {}).get("message"))
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Inputs:
    """Configuration and arguments as a tool takes them, and what was undefined."""

    config: Any
    input: Any
    notes: tuple[str, ...] = ()


async def resolve(job: Job, values: Values, borrowed: Borrowed) -> Inputs:
    """Return the inputs of a job with every reference loaded and every expression evaluated; raises InputError.

    Expressions are where the job says that they are. Whatever looks like one elsewhere is data.
    """
    whole, notes = await _resolved({"config": job.config, "input": job.input}, job, values, borrowed, {})
    return Inputs(whole["config"], whole["input"], notes)


async def resolve_sink(
    job: Job, values: Values, borrowed: Borrowed, names: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return the configuration of a job's sink, made whole with what is known only after the task; and notes."""
    whole, notes = await _resolved({"sink": job.sink or {}}, job, values, borrowed, names)
    return whole["sink"].get("config"), notes


async def _resolved(
    parts: dict[str, Any], job: Job, values: Values, borrowed: Borrowed, names: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    notes: list[str] = []
    references = [item for item in mappings(list(parts.values())) if is_reference(item)]
    if references:
        pieces = await _loaded(references, values)
        parts = {root: filled(part, pieces, notes) for root, part in parts.items()}
    places = [place for place in job.deferred if place[0] in parts]
    if places:
        try:
            known = {**names, KEYCHAIN: await _credentials(expressions_at(parts, places), borrowed)}
            parts = finished(parts, places, _Evaluating(job, known, notes).value)
        except MisplacedExpressionError as problem:
            raise InputError(failure("exception", f"the job cannot be read: {problem}")) from None
    return parts, tuple(notes)


class _Evaluating:
    """Evaluates the expressions of one job, and notes what was undefined."""

    def __init__(self, job: Job, names: Mapping[str, Any], notes: list[str]) -> None:
        self._job = job
        self._names = names
        self._notes = notes

    def value(self, text: str, scope: dict[str, Any]) -> Any:
        """Return the value of an expression; the worker's own names are over those that it came with."""
        template = _compiled(text)
        try:
            found = template.evaluate({**scope, **self._names}, _helpers(self._job, text))
        except EvaluationError as problem:
            raise InputError(_failed(template, problem)) from None
        unknown = [name for name in found.missing if _FIRST_NAME.split(name, 1)[0] == KEYCHAIN]
        if unknown:
            raise InputError(failure("auth", f"'{unknown[0]}' is not known to this worker"))
        self._notes.extend(f"'{name}' is undefined" for name in found.missing)
        return found.value


def _failed(template: Template, problem: EvaluationError) -> Outcome:
    message = f"the expression {template.text[:200]!r} failed: {problem.message}"
    error = Failure("expression", message, details={"template": template.text[:500], "reason": problem.reason})
    return Outcome("error", error=error.as_json())


async def _loaded(references: list[dict[str, Any]], values: Values) -> Pieces:
    loading = Loading(values, MAX_LOADED_BYTES)
    try:
        return await loading.pieces(references)
    except MissingValueError:
        raise InputError(failure("expression", "a stored value that the call needs is gone")) from None
    except TooMuchError:
        message = f"the inputs refer to more than {MAX_LOADED_BYTES} bytes of stored values"
        raise InputError(failure("limit", message)) from None


async def _credentials(texts: list[str], borrowed: Borrowed) -> dict[str, Any]:
    paths = [path for text in texts for path in _compiled(text).reads if path[0] == KEYCHAIN]
    if not all(len(path) > 1 and isinstance(path[1], str) for path in paths):
        message = f"a credential is named in the expression itself, as in {KEYCHAIN}.name.field"
        raise InputError(failure("auth", message))
    found = {name: await borrowed.fields(name) for name in sorted({str(path[1]) for path in paths})}
    return {name: fields for name, fields in found.items() if fields is not None}


def _compiled(text: str) -> Template:
    try:
        return compile_template(text)
    except TemplateSyntaxProblem as problem:
        raise InputError(failure("expression", f"an expression cannot be read: {problem}")) from None


def _helpers(job: Job, text: str) -> Helpers:
    """Return time and chance of the job itself, so that a job delivered twice is the same call twice.

    Chance is that of the expression too: an argument is the same wherever it is read.
    """
    chance = SeededChance(job.job_id)
    drawn = 0

    def draw() -> float:
        nonlocal drawn
        drawn += 1
        return chance.draw(f"worker|{text}|{drawn}")

    when: datetime | None = job.available_at
    return Helpers(when, draw)
