"""The tool that loads a stored result by its reference."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import override

from services.worker.loading import Loading, TooMuchError
from services.worker.tools.configs import BadConfigError, Config, bad_config, read_config
from services.worker.tools.port import Call, Tool
from services.worker.values import MissingValueError, Values
from shared.contracts.outcomes import Outcome, failure, success
from shared.contracts.references import MISSING, SCHEMES, is_reference
from shared.engine.world import canonical_json

MAX_LOADED_BYTES = 64 * 1024 * 1024
LONGEST_REFERENCE = 1000


class ArtifactConfig(Config):
    """What an `artifact` task may say."""

    action: Literal["get"] = "get"
    result_ref: Any = None
    timeout: Any = None


class ArtifactTool(Tool):
    """Succeeds with the value that was stored."""

    kind = "artifact"
    config_model = ArtifactConfig

    def __init__(self, values: Values, limit: int = MAX_LOADED_BYTES) -> None:
        self._values = values
        self._limit = limit

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, ArtifactConfig, call.config)
            wanted = config.result_ref if config.result_ref is not None else call.input.get("result_ref")
            reference = _reference(wanted)
        except BadConfigError as problem:
            return problem.outcome
        if reference is None:
            return success(wanted)
        return await self._loaded(reference)

    async def _loaded(self, reference: dict[str, Any]) -> Outcome:
        try:
            (found,) = (await Loading(self._values, self._limit).pieces([reference])).values()
        except MissingValueError:
            return failure("client_error", f"nothing is stored as {_shown(reference)}", code=404)
        except TooMuchError:
            return _too_much(reference, self._limit)
        if found is MISSING:
            return failure("client_error", f"there is nothing at the path into {_shown(reference)}", code=404)
        if len(canonical_json(found)) > self._limit:
            return _too_much(reference, self._limit)
        return success(found)


def _reference(wanted: Any) -> dict[str, Any] | None:
    """Return the reference that is wanted, or nothing if the worker has put the value in its place already.

    A reference that a job holds as a mapping is made whole before a tool is called; a text is left for us. What was
    stored is large, so a short text that names nothing stored is a mistake, not a value.
    """
    if wanted is None:
        raise bad_config("artifact", "result_ref is needed: the reference of a stored result, as in its _ref")
    if is_reference(wanted):
        return wanted
    if not isinstance(wanted, str) or len(wanted) > LONGEST_REFERENCE:
        return None
    if not wanted.startswith(SCHEMES):
        raise bad_config("artifact", f"result_ref is no reference; one begins with {' or '.join(SCHEMES)}")
    return {"_ref": wanted}


def _too_much(reference: dict[str, Any], limit: int) -> Outcome:
    return failure("limit", f"{_shown(reference)} stands for more than {limit} bytes")


def _shown(reference: dict[str, Any]) -> str:
    return str(reference["_ref"])[:100]
