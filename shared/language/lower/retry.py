"""The older `retry:` block, in each of its forms, to rules of the Plan."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from shared.language.diagnostics import Report
from shared.language.lower.context import Lowering
from shared.language.lower.rules import check_multiplier, exhausted_of, jitter_of, retry
from shared.language.lower.values import (
    On,
    condition_of,
    count_of,
    number_of,
    optional_number,
    value_of,
    whole_of,
    word_of,
)
from shared.language.nodes import Mapping, Node, Scalar, Sequence, text_of
from shared.language.plan import Condition, Continue, Fail, Gather, Jitter, Repeat, Retry, Rule


@dataclass(frozen=True, slots=True)
class Block:
    """What every policy of one `retry:` block shares."""

    labels: Collection[str]
    jitter: Jitter
    low: Lowering

    @property
    def errors(self) -> Report:
        """Where problems of the block go."""
        return self.low.errors


def retry_rules(node: Node | None, labels: Collection[str], jitter: Jitter | None, low: Lowering) -> list[Rule]:
    """Return the rules that a `retry:` block stands for, without the tail; jitter is on unless said otherwise."""
    block = Block(labels, jitter or "half", low)
    match node:
        case Scalar(value=bool(on)):
            return [_plain_retry(node, 3, block)] if on else []
        case Scalar():
            attempts = whole_of(node)
            return [_plain_retry(node, attempts, block)] if attempts is not None else []
        case Sequence(items=items):
            return [rule for i, item in enumerate(items) for rule in _policy_rules(item, f"retry[{i}]", block)]
        case Mapping():
            return _policy_rules(node, "retry", block)
        case _:
            return []


def _plain_retry(node: Scalar, attempts: int, block: Block) -> Rule:
    directive = retry(attempts=attempts, backoff="exponential", jitter=block.jitter)
    return Rule(Condition("error", text="error"), directive, label="retry", place=node.place)


def _policy_rules(node: Node, label: str, block: Block) -> list[Rule]:
    if not isinstance(node, Mapping):
        return []
    if node.entry("while", "next_call"):
        return [_repeat_rule(node, label, block)]
    out: list[Rule] = []
    on_error, on_success = node.get("on_error"), node.get("on_success")
    if isinstance(on_error, Mapping):
        out += _error_rules(on_error, f"{label}.on_error", "error", block)
    if isinstance(on_success, Mapping):
        out.append(_repeat_rule(on_success, f"{label}.on_success", block))
    if on_error is None and on_success is None:
        out += _error_rules(node, label, "any", block)
    return out


def _error_rules(node: Mapping, label: str, on: On, block: Block) -> list[Rule]:
    """Return the stop rules and the retry rule; without a condition only errors are tried again."""
    wanted = node.get("retry_when", "when", "condition")
    when = condition_of(wanted, block.errors, on if wanted is not None else "error", "legacy")
    rule = Rule(when, _retry_of(node, block), label=label, place=(wanted or node).place)
    return [*_stop_rules(node.get("stop_when"), label, block), rule]


def _stop_rules(node: Node | None, label: str, block: Block) -> list[Rule]:
    """Return the rules that end the attempts: an error fails, a success goes on."""
    if node is None:
        return []
    name = f"{label}.stop_when"
    rules = [
        Rule(condition_of(node, block.errors, "error", "legacy"), Fail(), label=name, place=node.place),
        Rule(condition_of(node, block.errors, "success", "legacy"), Continue(), label=name, place=node.place),
    ]
    return [rule for rule in rules if rule.when.on != "never"]


def _retry_of(node: Mapping, block: Block) -> Retry:
    errors = block.errors
    backoff = word_of(node.get("backoff"), "exponential")
    check_multiplier(node, backoff, block.low)
    return retry(
        attempts=count_of(node.get("max_attempts", "attempts"), 3, errors, "legacy"),
        backoff=backoff,
        delay=number_of(node.get("initial_delay", "delay"), 1.0, errors, "legacy"),
        multiplier=number_of(node.get("backoff_multiplier", "multiplier"), 2.0, errors, "legacy"),
        max_delay=number_of(node.get("max_delay"), 60.0, errors, "legacy"),
        jitter=jitter_of(node.get("jitter"), block.jitter),
        budget=optional_number(node.get("budget"), errors, "legacy"),
        on_exhausted=exhausted_of(node.get("on_exhausted"), block.labels, block.low),
    )


def _repeat_rule(node: Mapping, label: str, block: Block) -> Rule:
    wanted = node.get("while", "when")
    directive = Repeat(
        max_attempts=count_of(node.get("max_attempts", "attempts"), 100, block.errors, "legacy"),
        next_call=value_of(node.get("next_call"), block.errors, "legacy"),
        gather=_gather_of(node, block),
        delay=number_of(node.get("delay"), 0, block.errors, "legacy"),
    )
    when = condition_of(wanted, block.errors, "success", "legacy")
    return Rule(when, directive, label=label, place=(wanted or node).place)


def _gather_of(node: Mapping, block: Block) -> Gather:
    collect = node.get("collect")
    inner = collect if isinstance(collect, Mapping) else None
    path = _once(node, inner, block, "merge_path", "path")
    into = _once(node, inner, block, "into")
    default = "append" if path else "collect"
    strategy = word_of(inner.get("strategy") if inner else collect, default)
    steps = tuple(part for part in (path or "").removeprefix("$").split(".") if part)
    return Gather(strategy, steps, into)  # type: ignore[arg-type]


def _once(node: Mapping, inner: Mapping | None, block: Block, *names: str) -> str | None:
    """Return a text that may stand beside `collect` or in it, but not in both."""
    here, under = node.entry(*names), inner.entry(*names) if inner else None
    if here is not None and under is not None:
        block.errors.error(
            "said-twice", under.place, f"'{here.key}' stands beside 'collect' too", "keep one of the two"
        )
    entry = here or under
    return text_of(entry.value) if entry else None
