"""What `set` writes and where, and where results are stored."""

import json

import pytest

from shared.language.plan import Assignment, Constant, Expression, Object, Sink
from tests.support.language import error, found, marked, of_keys, of_steps, of_tasks, rules_of, step_of, task_of


def written(patches: tuple[Assignment, ...]) -> list[tuple[str, str]]:
    return [(patch.target, ".".join(patch.path)) for patch in patches]


TARGETS = "set: {ctx.a: 1, iter.b: 2, vars.c: 3, d: 4, ctx.e.f: 5, g.h: 6}"


def test_on_a_step_a_bare_name_goes_to_ctx() -> None:
    step = step_of(of_steps(f"- {{step: only, tool: {{kind: noop}}, {TARGETS}}}"))

    assert written(step.set) == [
        ("ctx", "a"), ("iter", "b"), ("ctx", "c"), ("ctx", "d"), ("ctx", "e.f"), ("ctx", "g.h"),
    ]  # fmt: skip


def test_on_a_task_a_bare_name_is_for_later_tasks() -> None:
    task = task_of(of_tasks(f"- {{kind: noop, {TARGETS}}}"))

    assert written(task.set) == [
        ("ctx", "a"), ("iter", "b"), ("ctx", "c"), ("local", "d"), ("ctx", "e.f"), ("local", "g.h"),
    ]  # fmt: skip


@pytest.mark.parametrize("rule", ["expr: true, do: continue, {}", "when: true, then: {{do: continue, {}}}",
                                  "else: {{do: continue, {}}}", "else: {{then: {{do: continue, {}}}}}"])  # fmt: skip
def test_in_a_rule_a_bare_name_is_for_later_tasks(rule: str) -> None:
    rules = rules_of(of_tasks(f"- {{kind: noop, eval: [{{{rule.format(TARGETS)}}}]}}"))

    assert written(rules[-1].set) == [
        ("ctx", "a"), ("iter", "b"), ("ctx", "c"), ("local", "d"), ("ctx", "e.f"), ("local", "g.h"),
    ]  # fmt: skip


def test_set_ctx_and_set_iter_mean_the_same_as_set() -> None:
    older = rules_of(of_tasks("- {kind: noop, eval: [{else: {do: continue, set_ctx: {a: 1}, set_iter: {b.c: 2}}}]}"))
    newer = rules_of(of_tasks("- {kind: noop, eval: [{else: {do: continue, set: {ctx.a: 1, iter.b.c: 2}}}]}"))

    assert older == newer


def test_what_is_set_is_a_value_of_any_kind() -> None:
    task = task_of(of_tasks("- {kind: noop, set: {a: {b: [1, '{{ x }}']}, c: null, d: '{{ y }}'}}"))

    assert [patch.value for patch in task.set[1:]] == [Constant("null"), Expression("{{ y }}")]
    assert isinstance(task.set[0].value, Object)


@pytest.mark.parametrize("key", ["ctx", "iter", "vars", "a-b", "1a", "a..b", "ctx.", "'a b'", "workload.x", "outcome",
                                 "args.n", "execution_id", "_prev", "keychain.pg"])  # fmt: skip
@pytest.mark.parametrize("where", ["- {{step: only, set: {{▸{}: 1}}}}",
                                   "- {{step: only, tool: {{kind: noop, set: {{▸{}: 1}}}}}}",
                                   "- {{step: only, next: [{{step: only, set: {{▸{}: 1}}}}]}}"])  # fmt: skip
def test_a_target_that_cannot_be_written_is_an_error(where: str, key: str) -> None:
    source, line, column = marked(of_steps(where.format(key)))

    assert found(source) == [("wrong-key", line, column)]


def test_the_workload_cannot_be_written() -> None:
    item = error(of_steps("- {step: only, set: {workload.x: 1}}"))

    assert item.message == "'workload.x' cannot be written: 'workload' is only read"


@pytest.mark.parametrize("key", ["ctx.a", "iter.a", "vars.a", "a-b"])
def test_set_ctx_and_set_iter_take_bare_names(key: str) -> None:
    text = of_tasks(f"- {{kind: noop, eval: [{{else: {{do: continue, set_iter: {{▸{key}: 1}}}}}}]}}")
    source, line, column = marked(text)

    assert found(source) == [("wrong-key", line, column)]


# req: A16, H5
SINKS = {
    "postgres": ("table: t, connection: pg, mode: append", {"table": "t", "auth": "pg", "mode": "append"}),
    "duckdb": ("table: t, database: a.db, mode: replace", {"table": "t", "database": "a.db", "mode": "replace"}),
    "file": ("path: out.jsonl, format: jsonl", {"path": "out.jsonl", "format": "jsonl"}),
    "http": (
        "url: http://api, method: PUT, auth: {credential: c}",
        {"url": "http://api", "method": "PUT", "auth": "c"},
    ),
    "rabbitmq": ("routing_key: k, exchange: x", {"routing_key": "k", "exchange": "x"}),
}


@pytest.mark.parametrize("word", ["tool", "kind", "type"])
@pytest.mark.parametrize("kind", SINKS)
def test_every_kind_of_sink_is_known(kind: str, word: str) -> None:
    text, config = SINKS[kind]
    sink = task_of(of_keys(f"sink: {{{word}: {kind}, {text}}}")).sink

    assert sink is not None
    assert sink.kind == kind
    assert isinstance(sink.config, Constant)
    assert json.loads(sink.config.json) == config


def test_the_sink_of_the_language_page_is_planned() -> None:
    sink = task_of(
        of_keys(
            "sink: { tool: postgres, auth: pg_main, table: raw_pages, mode: append, key: [id], "
            'data: "{{ result.data }}" }'
        )
    ).sink

    assert sink == Sink(
        "postgres",
        Object(
            (
                ("auth", Constant('"pg_main"')),
                ("table", Constant('"raw_pages"')),
                ("mode", Constant('"append"')),
                ("key", Constant('["id"]')),
                ("data", Expression("{{ result.data }}")),
            )
        ),
    )


def test_a_single_key_means_a_list_of_one() -> None:
    one, many = (task_of(of_keys(f"sink: {{tool: postgres, table: t, mode: upsert, key: {key}}}")).sink
                 for key in ("id", "[id]"))  # fmt: skip

    assert one == many


@pytest.mark.parametrize(
    "text",
    [
        "- {step: only, tool: {kind: noop, sink: {tool: file, path: a}}}",
        "- {step: only, tool: noop, sink: {tool: file, path: a}}",
        "- {step: only, tool: {kind: noop}, sink: {tool: file, path: a}}",
    ],
)
def test_a_sink_on_the_step_is_the_sink_of_its_task(text: str) -> None:
    assert task_of(of_steps(text)).sink == Sink("file", Constant('{"path":"a"}'))


def test_a_sink_on_a_step_with_several_tasks_belongs_to_the_last() -> None:
    step = step_of(of_steps("- {step: only, tool: [{kind: noop}, {kind: noop}], sink: {tool: file, path: a}}"))

    assert [task.sink is None for task in step.tasks] == [True, False]


@pytest.mark.parametrize(
    ("sink", "code"),
    [
        ("▸{table: t}", "missing-key"),
        ("{tool: ▸mongo, table: t}", "unknown-kind"),
        ("▸{tool: postgres}", "missing-key"),
        ("▸{tool: file}", "missing-key"),
        ("▸{tool: http}", "missing-key"),
        ("{tool: postgres, table: t, mode: ▸insert}", "wrong-choice"),
        ("{tool: postgres, table: t, mode: ▸upsert}", "missing-key"),
        ("{tool: file, path: p, format: ▸xml}", "wrong-choice"),
        ("{tool: postgres, table: t, ▸colour: red}", "unknown-key"),
        ("{tool: postgres, table: t, auth: a, ▸dsn: b}", "said-twice"),
        ("{tool: postgres, table: ▸5}", "wrong-type"),
        ("▸postgres", "wrong-type"),
        ("▸[]", "wrong-type"),
    ],
)
def test_a_wrong_sink_is_an_error_at_its_place(sink: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- {{step: only, tool: noop, sink: {sink}}}"))

    assert found(source) == [(code, line, column)]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("{step: only, ▸sink: {tool: file, path: a}}", "sink-without-task"),
        ("{step: only, ▸sink: {tool: file, path: a}, tool: {kind: noop, sink: {tool: file, path: b}}}", "said-twice"),
    ],
)
def test_a_sink_needs_one_task_to_store_from(step: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- {step}"))

    assert found(source) == [(code, line, column)]
