"""However `next` is written, it becomes a router with its arcs."""

import pytest

from shared.language.plan import ALWAYS, Arc, Assignment, Condition, Constant, Expression, Object, Router
from tests.support.language import error, found, marked, of_steps, plan_of, step_of

REST = "\n- step: b\n- step: c\n- step: d"


def router(text: str) -> Router:
    return step_of(of_steps(f"- step: only\n  next: {text}{REST}")).next


def guard(text: str) -> Condition:
    return Condition("any", Expression(text))


@pytest.mark.parametrize(
    "text", ["b", "[b]", "{step: b}", "[{step: b}]", "{arcs: [b]}", "{mode: exclusive, arcs: [{step: b}]}",
             "{spec: {mode: exclusive}, arcs: [{step: b}]}"]
)  # fmt: skip
def test_one_arc_is_the_same_in_every_shape(text: str) -> None:  # req: A18
    assert router(text) == Router("exclusive", (Arc("b"),))


@pytest.mark.parametrize("step", ["- step: only", "- {step: only, next: []}"])
def test_a_step_without_next_ends_its_branch(step: str) -> None:
    assert step_of(of_steps(step)).next == Router("exclusive", ())


@pytest.mark.parametrize("text", ["[b, c]", "[{step: b}, {step: c}]", "[b, {step: c}]"])
def test_a_plain_list_without_guards_fires_all(text: str) -> None:
    assert router(text) == Router("inclusive", (Arc("b"), Arc("c")))


def test_a_plain_list_with_a_guard_fires_the_first_that_matches() -> None:
    assert router("[{step: b, when: '{{ x }}'}, c]") == Router("exclusive", (Arc("b", guard("{{ x }}")), Arc("c")))


def test_a_guard_that_always_holds_is_a_guard_too() -> None:
    assert router("[{step: b, when: true}, c]").mode == "exclusive"


@pytest.mark.parametrize("text", ["[{step: b}, {else: c}]", "[{step: b}, {else: {step: c}}]"])
def test_an_else_makes_a_plain_list_exclusive(text: str) -> None:
    assert router(text) == Router("exclusive", (Arc("b"), Arc("c", is_else=True)))


@pytest.mark.parametrize("text", ["{mode: inclusive, arcs: [b, {step: c, when: '{{ x }}'}]}",
                                  "{spec: {mode: inclusive}, arcs: [b, {step: c, when: '{{ x }}'}]}"])  # fmt: skip
def test_a_mode_that_is_said_holds_whatever_the_guards(text: str) -> None:
    assert router(text) == Router("inclusive", (Arc("b"), Arc("c", guard("{{ x }}"))))


def test_arcs_in_a_mapping_are_exclusive_unless_said_otherwise() -> None:
    assert router("{arcs: [b, c]}").mode == "exclusive"


def test_an_else_may_stand_in_arcs_with_what_it_carries() -> None:
    found = router("{mode: inclusive, arcs: [{step: b, when: '{{ x }}'}, {else: {step: c, args: {n: 1}}}]}")

    assert found.arcs[1] == Arc("c", args=Constant('{"n":1}'), is_else=True)


@pytest.mark.parametrize("key", ["args", "with", "input"])
def test_an_arc_carries_arguments(key: str) -> None:
    assert router(f"[{{step: b, {key}: {{n: '{{{{ x }}}}'}}}}]").arcs[0].args == Object((("n", Expression("{{ x }}")),))


def test_an_arc_sets_values_and_a_bare_name_goes_to_ctx() -> None:
    (arc,) = router("[{step: b, set: {a: 1, ctx.b: 2, iter.c: 3}}]").arcs

    assert arc.set == (
        Assignment("ctx", ("a",), Constant("1")),
        Assignment("ctx", ("b",), Constant("2")),
        Assignment("iter", ("c",), Constant("3")),
    )


@pytest.mark.parametrize(
    ("when", "takes"),
    [
        ("{{ event.name == 'step.failed' }}", True),
        ("{{ event.name == 'step.done' }}", True),
        ("{{ outcome.status == 'error' }}", True),
        ("{{ output.status == 'error' }}", True),
        ("{{ outcome.error.kind == 'timeout' }}", True),
        ("{{ output.error.kind == 'timeout' }}", True),
        ("{{ ctx.ready }}", False),
        ("{{ only.total > 5 }}", False),
        ("{{ true }}", False),
    ],
)
def test_only_an_arc_that_asks_about_the_outcome_takes_up_failures(when: str, takes: bool) -> None:
    assert router(f'[{{step: b, when: "{when}"}}]').arcs[0].takes_failures is takes


@pytest.mark.parametrize("text", ["b", "[{step: b}]", "[{step: b, when: true}]", "[{step: b, when: false}]"])
def test_an_arc_without_a_question_is_for_success(text: str) -> None:
    assert router(text).arcs[0].takes_failures is False


def test_an_else_is_for_success() -> None:
    assert router("[{step: b, when: \"{{ event.name == 'step.failed' }}\"}, {else: c}]").arcs[1].takes_failures is False


def test_guards_that_everybody_writes_are_recognised() -> None:
    arcs = router('[{step: b, when: "{{ outcome.status == \'error\' }}"}, {step: c, when: "{{ true }}"}]').arcs

    assert [arc.when for arc in arcs] == [Condition("error"), ALWAYS]


def test_an_arc_may_lead_back_or_to_itself() -> None:
    assert router("[{step: only, when: '{{ x }}'}, b]").arcs[0].step == "only"


def test_the_step_called_start_is_the_entry_else_the_first_unless_said_otherwise() -> None:
    steps = "- {step: a, next: start}\n- {step: start, next: a}"

    assert plan_of(of_steps(steps)).entry == "start"
    assert plan_of(of_steps("- step: a\n- step: b")).entry == "a"
    assert plan_of(of_steps(steps, "executor: {spec: {entry_step: a}}\n")).entry == "a"


@pytest.mark.parametrize(("version", "end"), [("redrive.io/v1", None), ("noetl.io/v1", "end"), ("noetl.io/v2", "end")])
def test_a_step_called_end_is_special_only_in_older_documents(version: str, end: str | None) -> None:
    assert plan_of(of_steps("- step: a\n- step: end", f"apiVersion: {version}\n")).end_step == end


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("▸nowhere", "unknown-step"),
        ("[b, ▸nowhere]", "unknown-step"),
        ("[{step: ▸nowhere}]", "unknown-step"),
        ("[b, {else: ▸nowhere}]", "unknown-step"),
        ("[▸{when: '{{ x }}'}]", "missing-key"),
        ("[{step: b, ▸wen: '{{ x }}'}]", "unknown-key"),
        ("[{step: b, when: ▸ctx.ready}]", "wrong-type"),
        ("[{step: b, when: ▸5}]", "wrong-type"),
        ("▸5", "wrong-type"),
        ("[▸5]", "wrong-type"),
        ("▸{mode: inclusive}", "missing-key"),
        ("{mode: ▸all, arcs: [b]}", "wrong-choice"),
        ("{mode: exclusive, spec: {▸mode: exclusive}, arcs: [b]}", "said-twice"),
        ("[{else: b}, {else: ▸c}]", "said-twice"),
        ("[{else: {step: b, ▸when: true}}]", "unknown-key"),
        ("[{else: b, ▸when: true}]", "unknown-key"),
    ],
)
def test_a_wrong_way_out_is_an_error_at_its_place(text: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- step: only\n  next: {text}{REST}"))

    assert found(source) == [(code, line, column)]


def test_an_empty_next_says_what_to_do() -> None:
    item = error(of_steps("- step: only\n  next:"))

    assert item.message == "expected the name of a step, a list of arcs, or a mapping with mode and arcs, found nothing"
    assert item.hint == "leave the key out, or give it a value"


def test_a_step_that_is_nearly_named_is_suggested() -> None:
    assert error(of_steps("- {step: fetch_all, next: fetch_al}")).hint == "did you mean 'fetch_all'?"
    assert error(of_steps("- {step: FETCH, next: fetch}")).hint == "did you mean 'FETCH'?"


def test_a_step_that_is_like_no_other_gets_the_list() -> None:
    assert error(of_steps("- {step: a, next: zzz}\n- step: b")).hint == "steps: a, b"
