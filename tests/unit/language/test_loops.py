"""However a loop is written, it becomes the same loop of the Plan."""

import json

import pytest

from shared.language.claims import tasks_of
from shared.language.plan import (
    NOTHING,
    Condition,
    Constant,
    Continue,
    Cursor,
    Expression,
    Fail,
    Jump,
    Loop,
    Object,
    Retry,
)
from tests.support.language import error, found, marked, of_steps, step_of

ITEMS = Expression("{{ workload.items }}")


def loop(text: str) -> Loop:
    found = step_of(of_steps(f"- {{step: only, tool: noop, loop: {{{text}}}}}")).loop
    assert found is not None
    return found


# req: A15
@pytest.mark.parametrize(
    "text",
    [
        "in: '{{ workload.items }}', iterator: user, mode: parallel, max_in_flight: 10",
        "collection: '{{ workload.items }}', element: user, mode: async, concurrency: 10",
        "in: '{{ workload.items }}', element: user, spec: {mode: parallel, max_in_flight: 10}",
        "collection: '{{ workload.items }}', iterator: user, mode: async, spec: {concurrency: 10}",
        "in: '{{ workload.items }}', iterator: user, mode: parallel, max_in_flight: 10.0",
    ],
)
def test_every_spelling_of_a_loop_means_the_same(text: str) -> None:
    assert loop(text) == Loop(ITEMS, "user", "parallel", max_in_flight=10)


def test_a_loop_is_sequential_its_element_is_item_and_all_results_are_kept_unless_said_otherwise() -> None:
    assert loop("in: '{{ workload.items }}'") == Loop(ITEMS, "item", "sequential", None, None, None, 0, False, "all")


@pytest.mark.parametrize(
    ("written", "source"),
    [("[1, 2]", Constant("[1,2]")), ("{a: 1}", Constant('{"a":1}')), ("5", Constant("5")), ("0", Constant("0"))],
)
def test_a_loop_runs_over_a_list_a_mapping_or_a_number(written: str, source: Constant) -> None:
    assert loop(f"in: {written}").source == source


def test_every_option_of_a_loop_is_kept() -> None:
    text = "in: 3, chunk_size: 50, where: '{{ item.active }}', collect: errors, max_in_flight: '{{ workload.n }}'"

    assert loop(text) == Loop(
        Constant("3"),
        max_in_flight=Expression("{{ workload.n }}"),
        chunk_size=50,
        where=Condition("any", Expression("{{ item.active }}")),
        collect="errors",
    )


@pytest.mark.parametrize(
    ("text", "tolerate", "percent"),
    [
        ("tolerate: 3", 3, False),
        ("tolerate: 0", 0, False),
        ("tolerate: 5%", 5.0, True),
        ("tolerate: '2.5 %'", 2.5, True),
        ("tolerate: '{{ workload.some }}'", Expression("{{ workload.some }}"), False),
        ("on_failure: continue", 100, True),
        ("on_failure: fail", 0, False),
        ("on_failure: fail, tolerate: 2", 2, False),
    ],
)
def test_a_loop_tolerates_a_number_a_share_or_all(text: str, tolerate: object, percent: bool) -> None:  # req: F6
    found = loop(f"in: 3, {text}")

    assert (found.tolerate, found.tolerate_percent) == (tolerate, percent)


def test_a_cursor_claims_its_elements() -> None:
    found = loop(
        "cursor: {kind: postgres, auth: pg, claim: 'UPDATE t SET x = 1 RETURNING *', params: [1]}, iterator: row, "
        "spec: {mode: cursor, max_in_flight: 4, frame: {max_rows: 10, process: frame}}"
    )

    config = Constant(json.dumps({"claim": "UPDATE t SET x = 1 RETURNING *", "params": [1], "auth": "pg"},
                                 separators=(",", ":")))  # fmt: skip
    assert found == Loop(NOTHING, "row", "parallel", max_in_flight=4, cursor=Cursor("postgres", config, 10, "frame"))


def test_a_cursor_claims_row_by_row_one_at_a_time_unless_said_otherwise() -> None:
    found = loop("cursor: {kind: postgres, auth: {credential: pg}, claim: 'UPDATE'}, spec: {mode: cursor}")

    assert found.mode == "sequential"
    assert found.cursor == Cursor("postgres", Constant('{"claim":"UPDATE","auth":"pg"}'), 1, "row")


def test_claims_that_may_pass_are_retried_unless_the_cursor_says_otherwise() -> None:
    found = loop("cursor: {kind: postgres, claim: x}").cursor
    retried = loop("cursor: {kind: postgres, claim: x, retry: 5}").cursor
    judged = loop("cursor: {kind: postgres, claim: x, eval: [{expr: '{{ outcome.pg.code }}', do: jump, to: claim}]}")
    once = loop("cursor: {kind: postgres, claim: x, retry: false}").cursor

    assert found is not None
    assert [(rule.when.on, rule.then) for rule in found.rules] == [
        ("error", Retry(jitter="half")), ("error", Fail()), ("any", Continue()),
    ]  # fmt: skip
    assert retried is not None
    assert retried.rules[0].then == Retry(attempts=5, jitter="half")
    assert judged.cursor is not None
    assert [type(rule.then) for rule in judged.cursor.rules] == [Jump, Fail, Continue]
    assert once is not None
    assert [type(rule.then) for rule in once.rules] == [Fail, Continue]


def test_a_claim_is_a_task_of_its_step_with_the_tool_s_own_names() -> None:
    cursor = "{kind: postgres, claim: 'LIMIT {{ max_rows }}', dsn: d, timeout: 9, pool: near}"
    claim, task = tasks_of(step_of(of_steps(f"- {{step: only, tool: noop, loop: {{cursor: {cursor}}}}}")))

    assert (claim.name, claim.kind, claim.timeout, claim.pool) == ("claim", "postgres", 9, Constant('"near"'))
    assert isinstance(claim.config, Object)
    assert [key for key, _ in claim.config.items] == ["command", "dsn", "fetch"]
    assert task.name == "only"


def test_no_task_beside_a_cursor_can_be_called_as_its_claims_are() -> None:
    text = "- {step: a, loop: {%s}, tool: [{name: claim, kind: noop}]}"

    assert error(of_steps(text % "cursor: {kind: postgres, claim: x}")).code == "reserved-name"
    assert found(of_steps(text % "in: 3")) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("▸{iterator: x}", "missing-key"),
        ("{in: ▸items}", "wrong-type"),
        ("{in: ▸null}", "wrong-type"),
        ("{in: ▸true}", "wrong-type"),
        ("{in: ▸-1}", "wrong-type"),
        ("{in: 3, iterator: ▸two words}", "wrong-type"),
        ("{in: 3, iterator: ▸ctx}", "reserved-name"),
        ("{in: 3, element: ▸outcome}", "reserved-name"),
        ("{in: 3, mode: ▸paralel}", "wrong-choice"),
        ("{in: 3, max_in_flight: ▸0}", "wrong-type"),
        ("{in: 3, max_in_flight: ▸1.5}", "wrong-type"),
        ("{in: 3, max_in_flight: ▸'4'}", "wrong-type"),
        ("{in: 3, chunk_size: ▸0}", "wrong-type"),
        ("{in: 3, where: ▸item.active}", "wrong-type"),
        ("{in: 3, tolerate: ▸-1}", "wrong-type"),
        ("{in: 3, tolerate: ▸true}", "wrong-type"),
        ("{in: 3, tolerate: ▸some}", "wrong-type"),
        ("{in: 3, tolerate: ▸5, on_failure: continue}", "said-twice"),
        ("{in: 3, on_failure: ▸ignore}", "wrong-choice"),
        ("{in: 3, collect: ▸some}", "wrong-choice"),
        ("{in: 3, ▸collection: 4}", "said-twice"),
        ("{in: 3, mode: parallel, spec: {▸mode: parallel}}", "said-twice"),
        ("{in: 3, concurrency: 1, spec: {▸max_in_flight: 2}}", "said-twice"),
        ("▸{in: 3, cursor: {kind: postgres, claim: x}}", "said-twice"),
        ("▸{in: 3, mode: cursor}", "missing-key"),
        ("{cursor: ▸{kind: postgres}}", "missing-key"),
        ("{cursor: {kind: ▸http, claim: x}}", "wrong-choice"),
        ("{cursor: {kind: postgres, claim: x}, spec: {frame: {process: ▸rows}}}", "wrong-choice"),
        ("{cursor: {kind: postgres, claim: x}, where: ▸'{{ item }}'}", "wrong-option"),
        ("{cursor: {kind: postgres, claim: x}, spec: {chunk_size: ▸3}}", "wrong-option"),
        ("{cursor: {kind: postgres, claim: x, ▸sink: y}}", "unknown-key"),
        ("{cursor: {kind: postgres, claim: x, eval: [{else: {do: jump, to: ▸other}}]}}", "unknown-label"),
        ("{in: 3, ▸parallel: true}", "unknown-key"),
        ("▸5", "wrong-type"),
    ],
)
def test_a_wrong_loop_is_an_error_at_its_place(text: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- {{step: only, tool: noop, loop: {text}}}"))

    assert found(source) == [(code, line, column)]


def test_a_collection_without_braces_gets_the_expression_to_write() -> None:
    assert error(of_steps("- {step: a, loop: {in: users}}")).hint == 'write it as an expression: "{{ users }}"'


def test_a_number_in_quotes_is_told_to_leave_them_out() -> None:
    assert error(of_steps("- {step: a, loop: {in: 3, max_in_flight: '4'}}")).hint == "leave the quotes out"
