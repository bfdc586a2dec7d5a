"""The cursor of a loop to its part of the Plan: the statement that claims, how much, and the rules that judge it."""

from __future__ import annotations

from shared.language.claims import CLAIM
from shared.language.lower.context import Lowering, option_of
from shared.language.lower.pools import pool_of
from shared.language.lower.retry import retry_rules
from shared.language.lower.rules import EVAL, completed, rules_of
from shared.language.lower.tasks import auth_of
from shared.language.lower.values import count_of, object_of, optional_number, value_of, word_of
from shared.language.nodes import Mapping, Node, text_of
from shared.language.plan import CLAIM_RULES, Cursor, Rule

_AUTH_KEYS = ("auth", "credential", "connection")
_NOT_CONFIG = frozenset({"kind", "eval", "retry", "timeout", "pool", *_AUTH_KEYS})


def cursor_of(loop: Mapping, pool: Node | None, low: Lowering) -> Cursor | None:
    """Return the cursor that feeds a loop, if one does."""
    node, spec = loop.get("cursor"), loop.get("spec")
    if not isinstance(node, Mapping):
        return None
    frame = spec.get("frame") if isinstance(spec, Mapping) else None
    rows = frame.get("max_rows") if isinstance(frame, Mapping) else None
    process = text_of(frame.get("process")) if isinstance(frame, Mapping) else None
    fields = {e.key: value_of(e.value, low.errors) for e in node.entries if e.key not in _NOT_CONFIG}
    auth, pool = node.get(*_AUTH_KEYS), node.get("pool") or pool
    if auth is not None:
        fields["auth"] = auth_of(auth, low)
    return Cursor(
        kind=word_of(node.get("kind"), "postgres"),
        config=object_of(fields),
        max_rows=count_of(rows, 1, low.errors),
        process="frame" if process == "frame" else "row",
        rules=_rules_of(node, low),
        timeout=optional_number(node.get("timeout"), low.errors),
        pool=pool_of(pool, low),
    )


def _rules_of(node: Mapping, low: Lowering) -> tuple[Rule, ...]:
    """Return the rules that a cursor names, or else those that retry an error that may pass."""
    rules, retries = node.get("eval"), node.get("retry")
    if rules is None and retries is None:
        return CLAIM_RULES
    found = [*rules_of(rules, EVAL, (CLAIM,), low), *retry_rules(retries, (CLAIM,), None, low)]
    return completed(found, EVAL.unmatched, low)


def check_cursor_options(loop: Mapping, low: Lowering) -> None:
    """Report options of a loop that would leave claimed rows lying or have another name here."""
    where, chunks = loop.get("where"), option_of(loop, low, "chunk_size")
    if where is not None:
        message = "'where' has no meaning for a cursor: what is claimed is worked on"
        low.errors.error("wrong-option", where.place, message, "put the condition into the claim's statement")
    if chunks is not None:
        message = "'chunk_size' has no meaning for a cursor"
        hint = "write spec: { frame: { max_rows: …, process: frame } }"
        low.errors.error("wrong-option", chunks.place, message, hint)
