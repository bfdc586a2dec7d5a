"""Whatever comes in, a Plan or diagnostics come out; and every Plan survives its encoding."""

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from shared.language.codec import digest, plan_from_json, plan_text
from shared.language.compile import Compiled, compile_playbook
from shared.language.diagnostics import MAX_DIAGNOSTICS, Diagnostic, Severity, render
from shared.language.lint.run import lint
from shared.language.place import lines_of
from tests.support.playbooks import EVERYTHING, INVALID, VALID

TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["{{ x }}", "{{ x", "{% if %}", "true", "yes", "5", "-1", "5%", "10s", "1h30m", "retry", "jump", "continue",
         "http", "noop", "postgres", "workbook", "a", "ctx.a", "\x1b[31m", "none", "all", "2xx",
         "{{ error != None }}", "x" * 300]
    ),
)  # fmt: skip
WORDS = (
    "apiVersion", "kind", "metadata", "workload", "keychain", "executor", "workbook", "workflow", "result", "step",
    "tool", "type", "name", "next", "loop", "when", "set", "join", "sink", "retry", "eval", "spec", "policy", "rules",
    "expr", "do", "then", "else", "to", "attempts", "delay", "jitter", "on_error", "on_success", "while", "in", "mode",
    "arcs", "of", "args", "url", "timeout", "auth", "on_exhausted", "admit", "limits", "cursor", "tolerate",
)  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.one_of(st.sampled_from(WORDS), TEXTS), inner, max_size=6)
    ),
    max_leaves=25,
)


def check(source: str | bytes) -> Compiled:
    """Compile a text and check everything that holds whatever it is."""
    compiled = compile_playbook(source)
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    lines = lines_of(text)
    assert compiled.ok == (compiled.plan is not None) == (not compiled.errors)
    assert all(item.severity is Severity.ERROR for item in compiled.errors)
    assert len(compiled.errors) <= MAX_DIAGNOSTICS + 1
    advice = lint(compiled)
    assert all(item.severity is not Severity.ERROR for item in advice)
    for item in (*compiled.errors, *advice):
        check_diagnostic(item, lines)
    render((*compiled.errors, *advice), text, colour=True).encode("utf-8", "replace")
    return compiled


def check_diagnostic(item: Diagnostic, lines: list[str]) -> None:
    assert item.line == 1 or 1 <= item.line <= len(lines)
    assert 1 <= item.column <= max(len(line) for line in lines) + 1
    assert item.code
    assert item.message
    assert item.message.isprintable()
    assert json.loads(json.dumps(item.as_json()))["code"] == item.code


@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbfworkflow: [{step: a}]")
@example(b"\xff\xfea\x00:\x00")
def test_any_bytes_give_a_plan_or_an_error(source: bytes) -> None:
    check(source)


@given(st.text(max_size=300))
@example("\ud800")
@example("a: |\n\u2028 {{ x")
@example("workflow:\r- {step: a, when: '{{ x'}")
def test_any_text_gives_a_plan_or_an_error(source: str) -> None:
    check(source)


@given(st.text(alphabet="{}[]:,-&*!|>'\"#%@?\n\t abc<01.~\\", max_size=120))
def test_any_punctuation_gives_a_plan_or_an_error(source: str) -> None:
    check(source)


@given(TREES)
def test_any_tree_gives_a_plan_or_an_error(tree: Any) -> None:
    check(json.dumps(tree))
    check(yaml.safe_dump(tree, allow_unicode=True))


@given(TREES)
def test_any_step_gives_a_plan_or_an_error(tree: Any) -> None:
    check(json.dumps({"workflow": [tree if isinstance(tree, dict) else {"step": "a", "tool": tree}]}))


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """Draw a playbook with some of its characters replaced, removed, doubled or moved."""
    text = draw(st.sampled_from(sorted((*VALID.values(), *INVALID.values()))))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        piece = draw(st.one_of(TEXTS, st.just(text[start:end] * 2), st.just("")))
        text = text[:start] + piece + text[end:]
    return text


@given(mutations())
def test_a_playbook_with_any_damage_gives_a_plan_or_an_error(source: str) -> None:
    check(source)


def places(node: Any) -> list[list[Any]]:
    out: list[list[Any]] = []
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in children:
        out.append([key])
        out += [[key, *rest] for rest in places(inner)]
    return out


WHOLE = yaml.safe_load(EVERYTHING.replace("on: true", "'on': true"))
PLACES = places(WHOLE)


@given(st.sampled_from(PLACES), TREES, st.sampled_from(["replace", "remove", "add"]))
def test_a_playbook_with_any_value_changed_gives_a_plan_or_an_error(path: list[Any], value: Any, how: str) -> None:
    broken = json.loads(json.dumps(WHOLE))
    target = broken
    for key in path[:-1]:
        target = target[key]
    if how == "replace":
        target[path[-1]] = value
    elif how == "remove":
        del target[path[-1]]
    elif isinstance(target, dict):
        target[str(value)[:40]] = value
    else:
        target.append(value)

    check(json.dumps(broken))


NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"])
CONDITIONS = st.sampled_from(
    [
        True,
        "{{ x }}",
        "{{ outcome.status == 'error' }}",
        "{{ outcome.status == 'ok' }}",
        "{{ outcome.http.status > 499 }}",
    ]
)
NUMBERS = st.one_of(st.integers(1, 50), st.just("{{ workload.n }}"))
DURATIONS = st.one_of(st.integers(0, 100), st.floats(0, 100), st.sampled_from(["500ms", "2m", "1h30m", "{{ ctx.d }}"]))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["text", "{{ x }}"]))
RETRY = st.fixed_dictionaries(
    {"do": st.just("retry")},
    optional={
        "attempts": NUMBERS,
        "backoff": st.sampled_from(["none", "fixed", "linear", "exponential"]),
        "delay": DURATIONS,
        "max_delay": DURATIONS,
        "jitter": st.sampled_from([True, False, "full", "equal"]),
        "budget": DURATIONS,
        "on_exhausted": st.sampled_from(["fail", "continue", "break"]),
        "set": st.dictionaries(st.sampled_from(["ctx.a", "iter.b", "c"]), VALUES, max_size=2),
    },
)
END = st.fixed_dictionaries({"do": st.sampled_from(["continue", "break", "fail"])})
JUMP = st.fixed_dictionaries(
    {"do": st.just("jump"), "to": st.just("first")}, optional={"delay": DURATIONS, "max_jumps": NUMBERS}
)
DIRECTIVES = st.one_of(RETRY, END, JUMP)
RULES = st.lists(
    st.one_of(
        st.builds(lambda when, then: {"expr": when, **then}, CONDITIONS, DIRECTIVES),
        st.builds(lambda when, then: {"when": when, "then": then}, CONDITIONS, DIRECTIVES),
        st.builds(lambda then: {"else": then}, DIRECTIVES),
        st.builds(lambda then: {"else": {"then": then}}, DIRECTIVES),
    ),
    max_size=4,
)
BLOCKS = st.one_of(
    st.booleans(),
    st.integers(1, 9),
    st.fixed_dictionaries(
        {},
        optional={
            "max_attempts": NUMBERS,
            "initial_delay": DURATIONS,
            "retry_when": CONDITIONS,
            "stop_when": CONDITIONS,
        },
    ),
    st.fixed_dictionaries(
        {"on_success": st.fixed_dictionaries({"while": CONDITIONS}, optional={"merge_path": st.just("data.items")})},
        optional={"on_error": st.fixed_dictionaries({}, optional={"max_attempts": NUMBERS})},
    ),
)
TASK = st.fixed_dictionaries(
    {"kind": st.just("http"), "url": st.sampled_from(["http://api", "{{ workload.url }}"])},
    optional={
        "eval": RULES,
        "retry": BLOCKS,
        "params": st.dictionaries(NAMES, VALUES, max_size=2),
        "timeout": DURATIONS,
        "sink": st.just({"tool": "postgres", "table": "t"}),
        "set": st.dictionaries(st.sampled_from(["ctx.a", "iter.b", "c"]), VALUES, max_size=2),
        "spec": st.builds(lambda rules: {"policy": {"rules": rules}}, RULES),
    },
)


@st.composite
def playbooks(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a playbook that is right."""
    names = draw(st.lists(NAMES, min_size=1, unique=True))
    steps = []
    for name in names:
        step: dict[str, Any] = {"step": name}
        if draw(st.booleans()):
            step["tool"] = [{"first": draw(TASK)}, {**draw(TASK), "name": "second"}]
        else:
            step["tool"] = {**draw(TASK), "name": "first"}
        targets = st.sampled_from(names)
        arc = st.fixed_dictionaries({"step": targets}, optional={"when": CONDITIONS, "args": st.just({"n": 1})})
        arcs = st.lists(st.one_of(targets, arc), max_size=3)
        modes = st.sampled_from(["exclusive", "inclusive"])
        step["next"] = draw(
            st.one_of(targets, arcs, st.builds(lambda mode, found: {"mode": mode, "arcs": found}, modes, arcs))
        )
        if draw(st.booleans()):
            step["loop"] = {
                "in": draw(st.sampled_from([3, [1, 2], "{{ workload.items }}"])),
                "max_in_flight": draw(NUMBERS),
            }
        steps.append(step)
    return {"workload": {"n": 1}, "workflow": steps}


@given(playbooks())
def test_a_playbook_that_is_right_has_a_plan_that_survives_its_encoding(playbook: dict[str, Any]) -> None:
    text = json.dumps(playbook)
    compiled = check(text)

    assert compiled.plan is not None, render(compiled.errors, text)
    plan = compiled.plan
    again = plan_from_json(json.loads(plan_text(plan)))
    assert again == plan
    assert hash(again) == hash(plan)
    assert digest(again) == digest(plan)
    for step in plan.steps:
        for task in step.tasks:
            assert task.rules[-1].when.on == "any"
            assert task.rules[-1].when.expression is None


@given(playbooks())
def test_the_layout_of_a_text_does_not_change_its_meaning(playbook: dict[str, Any]) -> None:
    flow, block = json.dumps(playbook), yaml.safe_dump(playbook, sort_keys=False)

    assert compile_playbook(flow).plan == compile_playbook(block).plan


def test_a_playbook_of_two_thousand_steps_compiles() -> None:
    steps = [
        {
            "step": f"s{number}",
            "tool": {"kind": "http", "url": "{{ workload.url }}", "retry": 3},
            "next": [
                {"step": f"s{(number * 7 + 1) % 2000}", "when": "{{ ctx.go }}"},
                {"else": f"s{(number + 1) % 2000}"},
            ],
        }
        for number in range(2000)
    ]
    compiled = check(json.dumps({"workload": {"url": "u"}, "workflow": steps}))

    assert compiled.plan is not None
    assert len(compiled.plan.steps) == 2000
    assert plan_from_json(json.loads(plan_text(compiled.plan))) == compiled.plan


def test_a_long_chain_and_a_wide_fan_out_compile() -> None:
    chain = [{"step": f"s{number}", "next": f"s{number + 1}"} for number in range(4999)] + [{"step": "s4999"}]
    fan: list[dict[str, Any]] = [{"step": "start", "next": [f"f{number}" for number in range(5000)]}]
    fan += [{"step": f"f{number}", "next": "start"} for number in range(5000)]

    assert check(json.dumps({"workflow": chain})).ok
    assert check(json.dumps({"workflow": fan})).ok
