"""The surface of loops, arcs and joins."""

from __future__ import annotations

import re
from dataclasses import replace

from shared.language.kinds import AUTH_FIELD, PARAMS
from shared.language.nodes import ScalarValue
from shared.language.predicates import has_key, is_list, is_mapping, is_number, is_scalar, is_text
from shared.language.rule_shapes import RETRY, RULES, SET
from shared.language.scalars import ANY, CONDITION, COUNT, DURATION, EXPRESSION, NAME, TEXT, WHOLE, at_least
from shared.language.shapes import (
    Case,
    Choice,
    Either,
    Field,
    ListOf,
    MapOf,
    Record,
    ScalarShape,
)
from shared.language.task_shapes import INPUT

CURSOR = Record(
    "cursor",
    {
        "kind": Field(Choice(("postgres",), what="cursor kind"), "The tool that claims.", required=True),
        "auth": AUTH_FIELD,
        "dsn": Field(TEXT, "Connection address."),
        "claim": Field(TEXT, "A statement that claims rows: UPDATE … RETURNING *.", required=True),
        "params": Field(PARAMS, "Parameters of the statement."),
        "eval": Field(RULES, "The ordered rules that judge a claim; errors that may pass are retried unless given."),
        "retry": Field(RETRY, "The older retry block."),
        "timeout": Field(DURATION, "How long one claim may take."),
        "pool": Field(TEXT, "The worker pool that claims."),
    },
)
FRAME = Record(
    "frame",
    {
        "max_rows": Field(COUNT, "How many rows one claim takes."),
        "process": Field(Choice(("row", "frame"), what="process"), "One iteration per row, or per claim."),
    },
)
LOOP_MODES = Choice(("sequential", "parallel", "async", "cursor"), what="loop mode")
MAX_IN_FLIGHT = Field(COUNT, "How many iterations run at once.", aliases=("concurrency",))
TOLERATE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"
SOURCE = Either(
    "a list, a mapping, a number or an expression",
    (
        Case(is_list, ListOf(ANY)),
        Case(is_mapping, MapOf(ANY)),
        Case(is_number, at_least(0, whole=True)),
        Case(is_scalar, replace(EXPRESSION, expected='a list, a mapping, a number or an expression "{{ … }}"')),
    ),
)


def _is_tolerance(value: ScalarValue) -> bool:
    if isinstance(value, str):
        return re.fullmatch(TOLERATE_PATTERN, value) is not None
    return COUNT.accepts(value) or value == 0


TOLERATE = ScalarShape(
    "a whole number, or a percentage such as '5%'",
    _is_tolerance,
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": TOLERATE_PATTERN}]},
    templated=True,
    hint=COUNT.hint,
)
LOOP = Record(
    "loop",
    {
        "in": Field(SOURCE, "A list, a mapping's items, a number, or a result.", aliases=("collection",)),
        "iterator": Field(NAME, "The name of the element.", aliases=("element",)),
        "mode": Field(LOOP_MODES, "sequential unless said otherwise."),
        "max_in_flight": MAX_IN_FLIGHT,
        "chunk_size": Field(COUNT, "Elements per iteration."),
        "where": Field(CONDITION, "Elements that do not match are left out."),
        "tolerate": Field(TOLERATE, "How many iterations may fail."),
        "on_failure": Field(Choice(("continue", "fail"), what="on_failure"), "continue = all may fail."),
        "collect": Field(Choice(("all", "none", "errors"), what="collect"), "Which results are kept."),
        "cursor": Field(CURSOR, "A claiming statement instead of a list."),
        "spec": Field(
            Record(
                "loop spec",
                {
                    "mode": Field(LOOP_MODES, "sequential unless said otherwise."),
                    "max_in_flight": MAX_IN_FLIGHT,
                    "chunk_size": Field(COUNT, "Elements per iteration."),
                    "frame": Field(FRAME, "How a cursor's rows are taken."),
                },
            ),
            "The same options, in the newer spelling.",
        ),
    },
    one_of=(("in", "cursor"),),
)
MODE = Choice(("exclusive", "inclusive"), what="mode")
ARC = Record(
    "arc",
    {
        "step": Field(TEXT, "Where it leads.", required=True),
        "when": Field(CONDITION, "Its guard."),
        "args": Field(INPUT.shape, "What it carries.", aliases=("with", "input")),
        "set": Field(SET, "Values written once its guard matched."),
    },
)
_ELSE = Record("else", {name: field for name, field in ARC.fields.items() if name != "when"})
ELSE_ARC = Record(
    "else arc",
    {
        "else": Field(
            Either("the name of a step, or an arc", (Case(is_mapping, _ELSE), Case(is_text, TEXT))),
            "Where to go when nothing matched.",
            required=True,
        )
    },
)
ARCS = ListOf(
    Either("an arc", (Case(is_text, TEXT), Case(has_key("else"), ELSE_ARC), Case(is_mapping, ARC))),
    "a list of arcs",
)
NEXT = Either(
    "the name of a step, a list of arcs, or a mapping with mode and arcs",
    (
        Case(is_text, TEXT),
        Case(is_list, ARCS),
        Case(has_key("step"), ARC),
        Case(
            is_mapping,
            Record(
                "next",
                {
                    "mode": Field(MODE, "exclusive: the first that matches; inclusive: all that match."),
                    "spec": Field(
                        Record("next spec", {"mode": Field(MODE, "exclusive or inclusive.")}),
                        "The same, in the newer spelling.",
                    ),
                    "arcs": Field(ARCS, "The ways out.", required=True),
                },
            ),
        ),
    ),
)
JOIN = Either(
    "'none', or a mapping with of and mode",
    (
        Case(
            is_scalar,
            Choice(
                ("none",),
                what="join",
                hints=(("all", "write join: { mode: all }"), ("any", "write join: { mode: any }")),
            ),
        ),
        Case(
            is_mapping,
            Record(
                "join",
                {
                    "of": Field(ListOf(TEXT, at_least=1), "The steps whose tokens meet here."),
                    "mode": Field(
                        Either(
                            "all, any or a number",
                            (
                                Case(is_text, Choice(("all", "any"), what="join mode")),
                                Case(is_scalar, WHOLE),
                            ),
                        ),
                        "all, any, or how many.",
                    ),
                },
            ),
        ),
    ),
)
