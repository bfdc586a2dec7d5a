"""`eval` and `policy.rules` to rules of the Plan, and the tail that makes every list complete."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from shared.language.diagnostics import did_you_mean, listed
from shared.language.lower.context import Lowering
from shared.language.lower.values import assignments_of, condition_of, count_of, number_of, optional_number, word_of
from shared.language.nodes import Mapping, Node, Scalar, Sequence, text_of
from shared.language.place import Place
from shared.language.plan import (
    ALWAYS,
    ON_ERROR,
    ON_SUCCESS,
    Assignment,
    Break,
    Condition,
    Continue,
    Directive,
    Fail,
    Jitter,
    Jump,
    Number,
    Retry,
    Rule,
)

_RETRY_OPTIONS = (
    "attempts",
    "backoff",
    "delay",
    "multiplier",
    "max_delay",
    "jitter",
    "budget",
    "on_exhausted",
)
_OPTIONS: dict[str, tuple[str, ...]] = {
    "retry": _RETRY_OPTIONS,
    "jump": ("to", "delay", "max_jumps"),
    "continue": (),
    "break": (),
    "fail": (),
}
_EVERY_OPTION = frozenset(name for names in _OPTIONS.values() for name in names)
_JITTERS: dict[object, Jitter] = {True: "half", False: "none", "full": "full", "equal": "equal"}


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a list of rules means where it is silent."""

    label: str
    backoff: str
    unmatched: str = "safe"
    jitter: Jitter = "none"


EVAL = Spelling("eval", "exponential")
POLICY = Spelling("rules", "none", "continue")


def rules_of(node: Node | None, spelling: Spelling, labels: Collection[str], low: Lowering) -> list[Rule]:
    """Return the rules of a list, without the tail that completes them."""
    if not isinstance(node, Sequence):
        return []
    out = []
    for index, item in enumerate(node.items):
        if isinstance(item, Mapping):
            out.append(_rule_of(item, f"{spelling.label}[{index}]", spelling, labels, low))
    return out


def completed(rules: list[Rule], unmatched: str, low: Lowering) -> tuple[Rule, ...]:
    """Return the rules that can be reached, with the default tail where outcomes are left over."""
    kept: dict[Condition, Rule] = {}
    for rule in rules:
        if _is_reached(rule, kept, low):
            kept[rule.when] = rule
    out = list(kept.values())
    if ALWAYS in kept:
        return tuple(out)
    if ON_ERROR in kept and ON_SUCCESS in kept:
        return (*out[:-1], replace(out[-1], when=replace(out[-1].when, on="any")))
    return (*out, *_tail(unmatched, ON_ERROR in kept, ON_SUCCESS in kept))


def _is_reached(rule: Rule, earlier: dict[Condition, Rule], low: Lowering) -> bool:
    if rule.when.on == "never":
        low.advice.warning("unreachable-rule", rule.place, f"{rule.label} never matches")
        return False
    first = _covering(rule.when, earlier)
    if first is None:
        return True
    message = f"{rule.label} is never reached: {first.label} matches whenever it would"
    hint = "attempts that are spent go to on_exhausted" if isinstance(first.then, Retry) else None
    low.advice.warning("unreachable-rule", rule.place, message, hint or "put the more specific rule first")
    return False


def _covering(when: Condition, earlier: dict[Condition, Rule]) -> Rule | None:
    """Return the earlier rule behind which no outcome is left for this condition."""
    for condition in (ALWAYS, when, Condition(when.on)):
        if condition in earlier:
            return earlier[condition]
    if ON_ERROR in earlier and ON_SUCCESS in earlier:
        return list(earlier.values())[-1]
    return None


def _tail(unmatched: str, errors_are_covered: bool, successes_are_covered: bool) -> list[Rule]:
    go_on = Rule(ALWAYS, Continue(), label="default", implicit=True)
    fail = Rule(ALWAYS, Fail(), label="default", implicit=True)
    if unmatched == "continue":
        return [go_on]
    if unmatched == "fail" or successes_are_covered:
        return [fail]
    return [go_on] if errors_are_covered else [replace(fail, when=ON_ERROR), go_on]


def _rule_of(item: Mapping, label: str, spelling: Spelling, labels: Collection[str], low: Lowering) -> Rule:
    otherwise = item.get("else")
    if isinstance(otherwise, Mapping):
        body = otherwise.get("then") or otherwise
        when = Condition(text="else")
    else:
        body = item.get("then") or item
        when = condition_of(item.get("expr", "when"), low.errors)
    if not isinstance(body, Mapping):
        body = item
    directive = directive_of(body, spelling, labels, low)
    return Rule(when, directive, patches_of(body, low), label, item.place)


def patches_of(body: Mapping, low: Lowering) -> tuple[Assignment, ...]:
    """Return what a rule writes when it matches."""
    out = [
        *assignments_of(body.get("set"), low.errors, "local"),
        *(replace(a, target="ctx") for a in assignments_of(body.get("set_ctx"), low.errors, "ctx")),
        *(replace(a, target="iter") for a in assignments_of(body.get("set_iter"), low.errors, "iter")),
    ]
    return tuple(out)


def directive_of(body: Mapping, spelling: Spelling, labels: Collection[str], low: Lowering) -> Directive:
    """Return the directive a rule states, reporting options that do not belong to it."""
    do = text_of(body.get("do")) or "continue"
    _check_options(body, do, low)
    match do:
        case "retry":
            return _retry_of(body, spelling, labels, low)
        case "jump":
            return _jump_of(body, labels, low)
        case "break":
            return Break()
        case "fail":
            return Fail()
        case _:
            return Continue()


def _check_options(body: Mapping, do: str, low: Lowering) -> None:
    if do not in _OPTIONS:
        return
    allowed = _OPTIONS[do]
    for entry in body.entries:
        if entry.key in _EVERY_OPTION and entry.key not in allowed:
            owners = [name for name, names in _OPTIONS.items() if entry.key in names]
            message = f"'{entry.key}' has no meaning for 'do: {do}'"
            low.errors.error("wrong-option", entry.place, message, f"it belongs to: {', '.join(owners)}")


def _retry_of(body: Mapping, spelling: Spelling, labels: Collection[str], low: Lowering) -> Retry:
    backoff = word_of(body.get("backoff"), spelling.backoff)
    check_multiplier(body, backoff, low)
    return retry(
        attempts=count_of(body.get("attempts"), 3, low.errors),
        backoff=backoff,
        delay=number_of(body.get("delay"), 1.0, low.errors),
        multiplier=number_of(body.get("multiplier"), 2.0, low.errors),
        max_delay=number_of(body.get("max_delay"), 60.0, low.errors),
        jitter=jitter_of(body.get("jitter"), spelling.jitter),
        budget=optional_number(body.get("budget"), low.errors),
        on_exhausted=exhausted_of(body.get("on_exhausted"), labels, low),
    )


def check_multiplier(body: Mapping, backoff: str, low: Lowering) -> None:
    """Report a multiplier for a delay that does not grow by one."""
    entry = body.entry("multiplier", "backoff_multiplier")
    if entry is not None and backoff in ("none", "fixed", "linear"):
        message = f"'{entry.key}' has no meaning for 'backoff: {backoff}'"
        low.errors.error("wrong-option", entry.place, message, "it belongs to: backoff: exponential")


def retry(*, backoff: str, **options: Any) -> Retry:
    """Return a retry directive in its one normal form."""
    if backoff in ("none", "fixed", "linear"):
        options["multiplier"] = 2.0
    options["backoff"] = "fixed" if backoff == "none" else backoff
    return Retry(**options)


def jitter_of(node: Node | None, default: Jitter) -> Jitter:
    """Return the kind of jitter a node names."""
    if not isinstance(node, Scalar):
        return default
    return _JITTERS.get(node.value, default) if isinstance(node.value, bool | str) else default


def exhausted_of(node: Node | None, labels: Collection[str], low: Lowering) -> Continue | Break | Fail | Jump:
    """Return what follows when all attempts are spent."""
    if isinstance(node, Mapping):
        target = node.get("jump")
        _check_label(target, labels, low)
        return Jump(word_of(target, ""))
    match text_of(node):
        case "continue":
            return Continue()
        case "break":
            return Break()
        case _:
            return Fail()


def _jump_of(body: Mapping, labels: Collection[str], low: Lowering) -> Jump:
    target = body.get("to")
    if target is None:
        entry = body.entry("do")
        place = entry.value.place if entry else body.place
        low.errors.error("missing-key", place, "a jump needs 'to'", f"tasks of this pipeline: {listed(labels)}")
    else:
        _check_label(target, labels, low)
    max_jumps: Number = count_of(body.get("max_jumps"), 1000, low.errors)
    return Jump(word_of(target, ""), number_of(body.get("delay"), 0, low.errors), max_jumps)


def _check_label(node: Node | None, labels: Collection[str], low: Lowering) -> None:
    name = text_of(node)
    if name is None or name in labels:
        return
    place = node.place if node is not None else Place(1, 1)
    low.errors.error(
        "unknown-label",
        place,
        f"no task '{name[:80]}' in this pipeline",
        lambda: did_you_mean(name, labels, "tasks of this pipeline"),
    )
