"""`next`, `join`, `when` and `loop` of a step to their parts of the Plan."""

from __future__ import annotations

import re

from shared.language.checks import RESERVED, report_unknown_step
from shared.language.lower.context import Lowering, option_of
from shared.language.lower.cursors import check_cursor_options, cursor_of
from shared.language.lower.values import (
    assignments_of,
    condition_of,
    count_of,
    reads_outcome,
    value_of,
    whole_of,
    word_of,
)
from shared.language.nodes import Mapping, Node, Scalar, Sequence, text_of
from shared.language.plan import (
    NOTHING,
    Admission,
    Arc,
    Condition,
    Cursor,
    Join,
    Loop,
    Number,
    Router,
)
from shared.language.route_shapes import TOLERATE_PATTERN


def router_of(node: Node | None, low: Lowering) -> Router:
    """Return the arcs of a step, whichever way `next` is written."""
    match node:
        case None | Scalar(value=None):
            return Router()
        case Scalar():
            return Router("exclusive", _arcs(Sequence((node,), node.place, 1), low))
        case Sequence():
            arcs = _arcs(node, low)
            guarded = any(arc.is_else or arc.when.text for arc in arcs)
            return Router("exclusive" if guarded or len(arcs) < 2 else "inclusive", arcs)
        case Mapping() if node.get("step") is not None:
            return Router("exclusive", _arcs(Sequence((node,), node.place, 1), low))
        case Mapping():
            mode = option_of(node, low, "mode")
            arcs_node = node.get("arcs")
            arcs = _arcs(arcs_node, low) if isinstance(arcs_node, Sequence) else ()
            return Router("inclusive" if text_of(mode) == "inclusive" else "exclusive", arcs)


def _arcs(node: Sequence, low: Lowering) -> tuple[Arc, ...]:
    return tuple(arc for item in node.items if (arc := _arc(item, low)))


def _arc(node: Node, low: Lowering) -> Arc | None:
    name = text_of(node)
    if name is not None:
        return Arc(name, place=node.place)
    if not isinstance(node, Mapping):
        return None
    otherwise = node.get("else")
    if otherwise is not None:
        arc = _arc(otherwise, low)
        return None if arc is None else Arc(arc.step, args=arc.args, set=arc.set, is_else=True, place=arc.place)
    when = condition_of(node.get("when"), low.errors)
    target = node.get("step")
    step = text_of(target)
    if target is None or step is None:
        return None
    return Arc(
        step=step,
        when=when,
        args=value_of(node.get("args", "with", "input"), low.errors),
        set=assignments_of(node.get("set"), low.errors, "ctx"),
        takes_failures=reads_outcome(when),
        place=target.place,
    )


def join_of(node: Node | None, low: Lowering) -> Join:
    """Return how tokens meet at a step."""
    if not isinstance(node, Mapping):
        return Join("none") if text_of(node) == "none" else Join()
    names = _joined(node.get("of"), low)
    mode = node.get("mode")
    count = whole_of(mode)
    if count is None or mode is None:
        return Join("any" if text_of(mode) == "any" else "all", names)
    if names and count > len(names):
        low.errors.error("join-count", mode.place, f"this step waits for {count} of {len(names)} steps")
    return Join("count", names, count)


def _joined(node: Node | None, low: Lowering) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in node.items if isinstance(node, Sequence) else ():
        name = text_of(item)
        if name is None:
            continue
        if name not in low.steps:
            report_unknown_step(name, item.place, low.steps, low.errors)
        if name in names:
            low.errors.error("said-twice", item.place, f"'{name[:80]}' is named twice")
        names[name] = None
    return tuple(names)


def admission_of(when: Node | None, policy: Node | None, low: Lowering) -> tuple[Admission, ...]:
    """Return the rules that admit a token to a step; none means everyone is welcome."""
    out: list[Admission] = []
    if when is not None:
        out.append(Admission(condition_of(when, low.errors), True, when.place))
        out.append(Admission(Condition(), False, when.place))
    admit = policy.get("admit") if isinstance(policy, Mapping) else None
    rules = admit.get("rules") if isinstance(admit, Mapping) else None
    if not isinstance(rules, Sequence):
        return tuple(out)
    if out:
        low.errors.error("said-twice", rules.place, "'when' stands on the step too", "keep one of the two")
    for item in rules.items:
        if isinstance(item, Mapping):
            otherwise = item.get("else")
            body = otherwise if isinstance(otherwise, Mapping) else item
            then = body.get("then") or body
            allow = then.get("allow") if isinstance(then, Mapping) else None
            condition = Condition() if otherwise is not None else condition_of(item.get("when"), low.errors)
            out.append(Admission(condition, isinstance(allow, Scalar) and allow.value is True, item.place))
    return tuple(out)


def loop_of(node: Node | None, pool: Node | None, low: Lowering) -> Loop | None:
    """Return the loop of a step, from its own keys and those under `spec:`; a cursor claims in the step's pool."""
    if not isinstance(node, Mapping):
        return None
    mode = word_of(option_of(node, low, "mode"), "sequential")
    cursor = cursor_of(node, pool, low)
    in_flight = option_of(node, low, "max_in_flight", "concurrency")
    parallel = mode in ("parallel", "async") or (mode == "cursor" and in_flight is not None)
    tolerate, percent = _tolerance(node, low)
    where, chunks = node.get("where"), option_of(node, low, "chunk_size")
    _check_loop(node, mode, cursor, low)
    return Loop(
        source=value_of(node.get("in", "collection"), low.errors) if cursor is None else NOTHING,
        iterator=word_of(node.get("iterator", "element"), "item"),
        mode="parallel" if parallel else "sequential",
        max_in_flight=None if in_flight is None else count_of(in_flight, 1, low.errors),
        chunk_size=None if chunks is None else count_of(chunks, 1, low.errors),
        where=condition_of(where, low.errors) if where is not None else None,
        tolerate=tolerate,
        tolerate_percent=percent,
        collect=word_of(node.get("collect"), "all"),  # type: ignore[arg-type]
        cursor=cursor,
        place=node.place,
    )


def _check_loop(node: Mapping, mode: str, cursor: Cursor | None, low: Lowering) -> None:
    if cursor is not None and node.get("in", "collection") is not None:
        low.errors.error("said-twice", node.place, "a loop has 'in' or 'cursor', not both", "keep one of the two")
    if mode == "cursor" and cursor is None:
        low.errors.error("missing-key", node.place, "a loop with 'mode: cursor' needs 'cursor'")
    if cursor is not None:
        check_cursor_options(node, low)
    iterator = node.get("iterator", "element")
    if iterator is not None and text_of(iterator) in RESERVED:
        message = f"'{text_of(iterator)}' has a meaning of its own in expressions and cannot name an element"
        low.errors.error("reserved-name", iterator.place, message)


def _tolerance(node: Mapping, low: Lowering) -> tuple[Number, bool]:
    tolerate = node.get("tolerate")
    if text_of(node.get("on_failure")) == "continue":
        if tolerate is not None:
            low.errors.error("said-twice", tolerate.place, "'on_failure: continue' tolerates every failure already")
        return 100, True
    if not isinstance(tolerate, Scalar):
        return 0, False
    text = text_of(tolerate)
    if text is not None and re.fullmatch(TOLERATE_PATTERN, text):
        return float(text.strip().removesuffix("%")), True
    return count_of(tolerate, 0, low.errors), False
