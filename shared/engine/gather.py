"""Making one result of the results of repeated calls."""

from __future__ import annotations

from typing import Any

from shared.contracts.references import fetched, is_http_result, is_reference, subject_of
from shared.engine.render import ExpressionFailed, expression_error
from shared.engine.state import Frame
from shared.engine.world import LostValueError, Values
from shared.language.plan import Gather


def piece_of(outcome: dict[str, Any] | None, gather: Gather, values: Values) -> Any:
    """Return what one call adds: the array at the path when arrays are appended, else the response."""
    result = _loaded((outcome or {}).get("result"), values)
    response = subject_of(result) if is_http_result(result) else result
    if gather.strategy != "append" or not gather.path:
        return response
    return _at(response, gather.path)


def gathered_result(frame: Frame, gather: Gather, values: Values) -> Any:
    """Return the pieces of all calls, the last one included, as the strategy says."""
    pieces = [_loaded(item, values) for item in frame.gathered]
    if (frame.outcome or {}).get("status") == "success":
        pieces.append(piece_of(frame.outcome, gather, values))
    if gather.strategy == "replace":
        return pieces[-1] if pieces else None
    if gather.strategy == "collect":
        return pieces
    out: list[Any] = []
    for piece in pieces:
        if isinstance(piece, list):
            out.extend(piece)
        elif piece is not None:
            out.append(piece)
    return out


def _loaded(value: Any, values: Values) -> Any:
    try:
        return fetched(value, values.load) if is_reference(value) else value
    except LostValueError as problem:
        raise ExpressionFailed(expression_error(str(problem))) from None


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if isinstance(data, dict):
            data = data.get(key)
        elif isinstance(data, list) and key.isdigit() and int(key) < len(data):
            data = data[int(key)]
        else:
            return None
    return data
