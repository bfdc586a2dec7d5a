"""What a job is given, made whole: references loaded, expressions that waited for the worker evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.worker.keychain import Borrowed
from services.worker.loading import Loading, Pieces, TooMuchError, identity_of, mappings
from services.worker.values import MissingValueError, Values
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Failure, Outcome, failure
from shared.contracts.references import MISSING, is_reference
from shared.engine.chance import SeededChance
from shared.templates.expressions import EvaluationError, Helpers, Template, TemplateSyntaxProblem, compile_template

MAX_LOADED_BYTES = 256 * 1024 * 1024
KEYCHAIN = "keychain"


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

    Expressions are looked for in the job alone, never in what it refers to: that is data.
    """
    (config, given), notes = await _resolved([job.config, job.input], job, values, borrowed, {})
    return Inputs(config, given, notes)


async def resolve_sink(
    job: Job, values: Values, borrowed: Borrowed, names: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return the configuration of a job's sink, made whole with what is known only after the task; and notes."""
    (config,), notes = await _resolved([(job.sink or {}).get("config")], job, values, borrowed, names)
    return config, notes


async def _resolved(
    parts: Sequence[Any], job: Job, values: Values, borrowed: Borrowed, names: Mapping[str, Any]
) -> tuple[list[Any], tuple[str, ...]]:
    marks = [item for item in mappings(parts) if is_reference(item) or _is_deferred(item)]
    if not marks:
        return list(parts), ()
    pieces = await _loaded([item for item in marks if is_reference(item)], values)
    credentials = await _credentials([item for item in marks if _is_deferred(item)], borrowed)
    whole = _Whole(job, pieces, {**names, KEYCHAIN: credentials})
    return [whole.of(part) for part in parts], tuple(whole.notes)


class _Whole:
    """Puts loaded values and evaluated expressions in their places."""

    def __init__(self, job: Job, pieces: Pieces, names: Mapping[str, Any]) -> None:
        self._pieces = pieces
        self._scope = names
        self._helpers = _helpers(job)
        self.notes: list[str] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, dict):
            return value
        if is_reference(value):
            return self._piece(value)
        if _is_deferred(value):
            return self._evaluated(value)
        return {key: self.of(item) for key, item in value.items()}

    def _piece(self, reference: dict[str, Any]) -> Any:
        found = self._pieces[identity_of(reference)]
        if found is MISSING:
            path = ".".join(str(part) for part in reference.get("_path", ()))
            self.notes.append(f"'{path}' is undefined in the stored value")
            return None
        return found

    def _evaluated(self, deferred: dict[str, Any]) -> Any:
        template = _compiled(deferred)
        scope = {**{name: self.of(item) for name, item in deferred["$scope"].items()}, **self._scope}
        try:
            found = template.evaluate(scope, self._helpers)
        except EvaluationError as problem:
            raise InputError(_failed(template, problem)) from None
        unknown = [name for name in found.missing if name.split(".")[0] == KEYCHAIN]
        if unknown:
            raise InputError(failure("auth", f"'{unknown[0]}' is not known to this worker"))
        self.notes.extend(f"'{name}' is undefined" for name in found.missing)
        return found.value


def _failed(template: Template, problem: EvaluationError) -> Outcome:
    message = f"the expression {template.text[:200]!r} failed: {problem.message}"
    error = Failure("expression", message, details={"template": template.text[:500], "reason": problem.reason})
    return Outcome("error", error=error.as_json())


def _is_deferred(value: dict[str, Any]) -> bool:
    return isinstance(value.get("$template"), str) and isinstance(value.get("$scope"), dict) and len(value) == 2


async def _loaded(references: list[dict[str, Any]], values: Values) -> Pieces:
    loading = Loading(values, MAX_LOADED_BYTES)
    try:
        return await loading.pieces(references)
    except MissingValueError:
        raise InputError(failure("expression", "a stored value that the call needs is gone")) from None
    except TooMuchError:
        message = f"the inputs refer to more than {MAX_LOADED_BYTES} bytes of stored values"
        raise InputError(failure("limit", message)) from None


async def _credentials(deferred: list[dict[str, Any]], borrowed: Borrowed) -> dict[str, Any]:
    names = {
        path[1]
        for item in deferred
        for path in _compiled(item).reads
        if path[0] == KEYCHAIN and len(path) > 1 and isinstance(path[1], str)
    }
    found = {name: await borrowed.fields(name) for name in sorted(names)}
    return {name: fields for name, fields in found.items() if fields is not None}


def _compiled(deferred: dict[str, Any]) -> Template:
    try:
        return compile_template(deferred["$template"])
    except TemplateSyntaxProblem as problem:
        raise InputError(failure("expression", f"an expression cannot be read: {problem}")) from None


def _helpers(job: Job) -> Helpers:
    """Return time and chance of the job itself, so that a job delivered twice is the same call twice."""
    chance = SeededChance(job.job_id)
    drawn = 0

    def draw() -> float:
        nonlocal drawn
        drawn += 1
        return chance.draw(f"worker|{drawn}")

    when: datetime | None = job.available_at
    return Helpers(when, draw)
