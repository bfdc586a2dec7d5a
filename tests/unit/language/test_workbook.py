"""A task of the workbook is called by name, with what the caller says laid over it."""

import pytest

from shared.language.plan import Constant, Expression, Fail, Object, Retry, Sink, Task
from tests.support.language import error, found, marked, of_steps, step_of, task_of

WORKBOOK = """
workbook:
  - name: fetch
    tool: {kind: http, url: http://api/data, args: {a: 1, b: 2}, retry: 5, timeout: 30, pool: near}
  - {name: rest, kind: noop}
  - {task: older, type: noop}
"""


def call(text: str, workbook: str = WORKBOOK) -> Task:
    return task_of(of_steps(f"- {{step: only, {text}}}", workbook))


# req: A3
@pytest.mark.parametrize(
    "text",
    [
        "tool: {kind: workbook, task: fetch}",
        "tool: {kind: workbook, spec: {task: fetch}}",
        "tool: [{name: only, kind: workbook, task: fetch}]",
        "tool: [{only: {kind: workbook, task: fetch}}]",
        "tool: [{only: {kind: workbook, name: fetch}}]",
        "tool: workbook, task: fetch",
        "tool: workbook, name: fetch",
        "type: workbook, name: fetch",
        "kind: workbook, name: fetch",
    ],
)
def test_every_call_of_the_workbook_is_the_task_itself(text: str) -> None:
    direct = task_of(
        of_steps(
            "- {step: only, tool: http, url: http://api/data, args: {a: 1, b: 2}, retry: 5, timeout: 30, pool: near}"
        )
    )

    assert call(text) == direct


def test_a_name_alone_is_both_the_label_and_the_workbooks_task() -> None:
    task = call("tool: [{name: fetch, kind: workbook}]")

    assert (task.name, task.kind) == ("fetch", "http")


def test_a_step_named_like_the_task_calls_it() -> None:
    step = step_of(of_steps("- {step: fetch, tool: workbook}", WORKBOOK), "fetch")

    assert step.tasks[0].kind == "http"


@pytest.mark.parametrize("name", ["rest", "older"])
def test_an_entry_may_have_the_tools_fields_on_itself(name: str) -> None:
    assert call(f"tool: workbook, name: {name}").kind == "noop"


def test_input_of_the_caller_is_laid_over_that_of_the_task() -> None:
    assert call("tool: workbook, name: fetch, args: {b: 3, c: 4}").input == Constant('{"a":1,"b":3,"c":4}')
    assert call("tool: workbook, name: fetch, args: {b: '{{ x }}'}").input == Object(
        (("a", Constant("1")), ("b", Expression("{{ x }}")))
    )
    assert call("tool: workbook, name: fetch, input: '{{ all }}'").input == Expression("{{ all }}")


def test_everything_else_the_caller_says_wins() -> None:
    task = call(
        "tool: workbook, name: fetch, retry: false, timeout: 5, pool: far, set: {x: 1}, "
        "output: {output_select: [id]}, sink: {tool: file, path: a}"
    )

    assert [rule.then for rule in task.rules][:1] == [Fail()]
    assert (task.timeout, task.pool, task.select) == (5, Constant('"far"'), ("id",))
    assert task.set[0].path == ("x",)
    assert task.sink == Sink("file", Constant('{"path":"a"}'))


def test_rules_of_the_workbook_hold_where_the_caller_has_none() -> None:
    (first, *_) = call("tool: {kind: workbook, task: fetch}, retry: 2").rules

    assert isinstance(first.then, Retry)
    assert first.then.attempts == 5


def test_rules_of_the_step_hold_where_the_workbook_has_none() -> None:
    (first, *_) = call("tool: {kind: workbook, task: rest}, retry: 2").rules

    assert isinstance(first.then, Retry)
    assert first.then.attempts == 2


def test_a_jump_of_a_workbook_task_goes_to_a_label_of_its_caller() -> None:
    workbook = "workbook: [{name: t, kind: noop, eval: [{expr: '{{ x }}', do: jump, to: before}]}]\n"
    text = "tool: [{name: before, kind: noop}, {name: t, kind: workbook}]"

    assert [task.name for task in step_of(of_steps(f"- {{step: only, {text}}}", workbook)).tasks] == ["before", "t"]


@pytest.mark.parametrize(
    ("workbook", "step", "code"),
    [
        ("", "{step: a, tool: workbook, name: ▸fetch}", "unknown-task"),
        ("workbook: [{name: fetch, kind: noop}]\n", "{step: a, tool: workbook, name: ▸fetsh}", "unknown-task"),
        ("workbook: [{name: fetch, kind: noop}]\n", "▸{step: a, tool: workbook}", "unknown-task"),
        ("workbook: [{name: a, kind: noop}, {name: ▸a, kind: noop}]\n", "{step: s}", "duplicate-name"),
        ("workbook: [▸{name: a, kind: workbook}]\n", "{step: s, tool: workbook, name: a}", "workbook-cycle"),
        ("workbook: [{name: a, tool: ▸{kind: http}}]\n", "{step: s}", "missing-key"),
        ("workbook: [▸{kind: noop}]\n", "{step: s}", "missing-key"),
        ("workbook: [{name: a, kind: ▸htp}]\n", "{step: s}", "unknown-kind"),
        ("workbook: [{name: a, kind: http, url: '▸{{ x'}]\n", "{step: s}", "template-syntax"),
        ("workbook: [{name: a, kind: noop, eval: [{expr: true, do: fail, ▸to: b}]}]\n", "{step: s}", "wrong-option"),
        ("workbook: ▸{a: {kind: noop}}\n", "{step: s}", "wrong-type"),
    ],
)
def test_a_wrong_workbook_is_an_error_at_its_place_called_or_not(workbook: str, step: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- {step}", workbook))

    assert found(source) == [(code, line, column)]


def test_a_task_that_is_nearly_named_is_suggested() -> None:
    text = of_steps("- {step: a, tool: workbook, name: fetsh}", "workbook: [{name: fetch, kind: noop}]\n")

    assert error(text).hint == "did you mean 'fetch'?"
    assert error(of_steps("- {step: a, tool: workbook, name: b}")).hint == "there is no workbook"
