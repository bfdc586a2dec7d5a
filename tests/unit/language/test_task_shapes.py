"""However a task is written, it becomes the same task of the Plan."""

import json

import pytest

from shared.language.compile import compile_playbook
from shared.language.kinds import BUILT_IN, Kind
from shared.language.plan import Constant, Continue, Expression, Fail, Object, Task
from shared.language.scalars import TEXT
from shared.language.shapes import Field
from tests.support.language import error, errors, found, marked, of_keys, of_steps, of_tasks, plan_of, step_of, task_of

URL = Constant('{"url":"http://api/data"}')

# req: A2, A14; decision 18
SHAPES = {
    "a list of named tasks": "tool: [{name: only, kind: http, url: http://api/data}]",
    "a list of labelled tasks": "tool: [{only: {kind: http, url: http://api/data}}]",
    "one labelled task": "tool: {only: {kind: http, url: http://api/data}}",
    "one task": "tool: {kind: http, url: http://api/data}",
    "one task, its kind called type": "tool: {type: http, url: http://api/data}",
    "one task, its kind called tool": "tool: {tool: http, url: http://api/data}",
    "tool on the step": "tool: http\n  url: http://api/data",
    "type on the step": "type: http\n  url: http://api/data",
    "kind on the step": "kind: http\n  url: http://api/data",
    "the fields under spec": "tool: {kind: http, spec: {url: http://api/data}}",
    "a flat step with spec": "tool: http\n  spec: {url: http://api/data}",
    "an older name of a field": "tool: http\n  endpoint: http://api/data",
    "a named task under a label": "tool: [{only: {name: only, kind: http, url: http://api/data}}]",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_of_a_task_means_the_same(shape: str) -> None:
    assert task_of(of_steps(f"- step: only\n  {shape}")) == Task("only", "http", URL, rules=task_of(of_keys("")).rules)


def test_tasks_without_a_name_are_numbered_in_a_list() -> None:
    step = step_of(of_tasks("- kind: noop\n- {name: second, kind: noop}\n- kind: noop"))

    assert [task.name for task in step.tasks] == ["task_0", "second", "task_2"]


def test_a_single_task_without_a_name_is_called_as_its_step() -> None:
    assert task_of(of_steps("- {step: only, tool: {kind: noop}}")).name == "only"


def test_a_flat_step_can_name_its_task() -> None:
    assert task_of(of_steps("- {step: only, tool: noop, name: rest}")).name == "rest"


def test_a_pipeline_keeps_its_order() -> None:
    step = step_of(of_tasks("- b: {kind: noop}\n- a: {kind: noop}\n- {name: c, kind: noop}"))

    assert [task.name for task in step.tasks] == ["b", "a", "c"]


@pytest.mark.parametrize("step", ["- step: only", "- {step: only, tool: []}"])
def test_a_step_may_have_no_task(step: str) -> None:
    assert step_of(of_steps(step)).tasks == ()


def test_a_task_without_rules_continues_on_success_and_fails_on_error() -> None:  # req: B18
    rules = task_of(of_keys("")).rules

    assert [(rule.when.on, rule.then, rule.implicit) for rule in rules] == [
        ("error", Fail(), True),
        ("any", Continue(), True),
    ]


# req: A3
KINDS = {
    "http": 'method: PUT, url: "http://{{ host }}", headers: {a: b}, params: {p: 1}, body: [1], follow_redirects: true',
    "postgres": "auth: pg, query: select 1, params: [1], fetch: one",
    "python": "code: 'result = 1', libs: [json], memory: 64MB",
    "duckdb": "database: a.db, commands: [select 1, select 2], attach: [{path: b.db, as: b}]",
    "shell": "cmd: ls, env: {A: 1}, cwd: /tmp, stdin: x",
    "playbook": "path: examples/child, version: 3, return_step: last",
    "noop": "",
    "wait": "for: 5m",
    "rabbitmq": "exchange: x, routing_key: k, body: {a: 1}, headers: {h: 1}",
    "artifact": "action: get, input: {result_ref: '{{ a._ref }}'}",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tool_is_known(kind: str) -> None:
    task = task_of(of_steps(f"- {{step: only, tool: {{kind: {kind}, {KINDS[kind]}}}}}"))

    assert task.kind == kind


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ("kind: postgres, query: select 1", {"command": "select 1"}),
        ("kind: postgres, sql: select 1", {"command": "select 1"}),
        ("kind: postgres, command: select 1", {"command": "select 1"}),
        ("kind: postgres, dsn: 'postgres://x', commands: [a, b]", {"dsn": "postgres://x", "commands": ["a", "b"]}),
        ("kind: shell, command: ls", {"cmd": "ls"}),
        ("kind: shell, cmds: [ls, pwd]", {"cmds": ["ls", "pwd"]}),
        ("kind: shell, argv: [ls, -l, 5]", {"argv": ["ls", "-l", 5]}),
        ("kind: wait, until: '2030-01-01T00:00:00Z'", {"until": "2030-01-01T00:00:00Z"}),
        ("kind: wait, signal: go, timeout: 1h", {"signal": "go"}),
        ("kind: http, url: u, expect: [200, 4xx, '404']", {"url": "u", "expect": [200, "4xx", "404"]}),
        ("kind: http, url: u, expect: 2xx", {"url": "u", "expect": "2xx"}),
        ("kind: http, url: u, max_body: 10MB", {"url": "u", "max_body": "10MB"}),
        ("kind: python, script: {uri: 's3://x'}", {"script": {"uri": "s3://x"}}),
        ("kind: artifact, action: get, result_ref: r", {"action": "get", "result_ref": "r"}),
    ],
)
def test_a_configuration_holds_the_fields_under_their_own_names(fields: str, config: dict[str, object]) -> None:
    task = task_of(of_steps(f"- {{step: only, tool: {{{fields}}}}}"))

    assert isinstance(task.config, Constant)
    assert json.loads(task.config.json) == config


def test_a_template_makes_only_its_own_place_an_expression() -> None:
    config = task_of(of_keys("params: {page: '{{ iter.page }}', size: 10}\nheaders: {a: b}")).config

    assert config == Object(
        (
            ("url", Constant('"http://api/data"')),
            ("params", Object((("page", Expression("{{ iter.page }}")), ("size", Constant("10"))))),
            ("headers", Constant('{"a":"b"}')),
        )
    )


def test_code_is_kept_as_it_is_written_whatever_looks_like_a_template_in_it() -> None:
    code = "def main():\n    return '{{ not a template'\n"
    task = task_of(of_steps(f"- step: only\n  tool: python\n  code: {json.dumps(code)}"))

    assert task.config == Constant(json.dumps({"code": code}, separators=(",", ":")))


def test_only_the_code_of_a_script_is_kept_as_it_is_written() -> None:
    task = task_of(of_steps("- {step: only, tool: python, script: {uri: 's3://{{ workload.bucket }}'}}"))
    inline = task_of(of_steps("- {step: only, tool: python, script: {inline: 'result = \"{{ x\"'}}"))

    assert task.config == Object((("script", Object((("uri", Expression("s3://{{ workload.bucket }}")),))),))
    assert isinstance(inline.config, Constant)


@pytest.mark.parametrize("auth", ["auth: pg_main", "credential: pg_main", "connection: pg_main",
                                  "auth: {type: postgres, credential: pg_main}", "auth: {name: pg_main}",
                                  "connection: {credential: pg_main}"])  # fmt: skip
def test_a_credential_is_named_in_any_form(auth: str) -> None:  # req: A14
    task = task_of(of_steps(f"- {{step: only, tool: {{kind: postgres, command: select 1, {auth}}}}}"))

    assert isinstance(task.config, Constant)
    assert json.loads(task.config.json)["auth"] == "pg_main"


def test_a_credential_may_be_chosen_by_an_expression() -> None:
    task = task_of(of_keys("auth: '{{ workload.credential }}'"))

    assert isinstance(task.config, Object)
    assert dict(task.config.items)["auth"] == Expression("{{ workload.credential }}")


@pytest.mark.parametrize("key", ["input", "args", "with"])
def test_input_args_and_with_are_one_thing(key: str) -> None:
    assert task_of(of_keys(f"{key}: {{a: 1}}")).input == Constant('{"a":1}')


def test_the_input_of_a_step_with_a_pipeline_is_the_steps_own() -> None:
    step = step_of(of_steps("- {step: only, args: {a: 1}, tool: {kind: noop, input: {b: 2}}}"))

    assert step.args == Constant('{"a":1}')
    assert step.tasks[0].input == Constant('{"b":2}')


def test_input_may_be_one_expression() -> None:
    assert task_of(of_keys("input: '{{ workload.all }}'")).input == Expression("{{ workload.all }}")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30", 30), ("1.5", 1.5), ("500ms", 0.5), ("2m", 120.0), ("1h30m", 5400.0), ("PT5M", 300.0)],
)
def test_a_timeout_is_a_duration(written: str, seconds: float) -> None:
    assert task_of(of_keys(f"timeout: {written}")).timeout == seconds


def test_a_timeout_in_parts_bounds_the_attempt_by_its_total_and_goes_to_the_tool() -> None:  # req: A12
    task = task_of(of_keys("timeout: {connect: 5, read: 15, total: 1m}"))

    assert task.timeout == 60.0
    assert isinstance(task.config, Constant)
    assert json.loads(task.config.json)["timeout"] == {"connect": 5, "read": 15, "total": "1m"}


def test_a_timeout_without_a_total_bounds_only_its_parts() -> None:
    assert task_of(of_keys("spec: {timeout: {connect: 5}}")).timeout is None


def test_a_timeout_may_be_an_expression() -> None:
    assert task_of(of_keys("timeout: '{{ workload.patience }}'")).timeout == Expression("{{ workload.patience }}")


def test_the_timeout_of_a_step_with_a_pipeline_is_the_steps_own() -> None:
    for text in ("timeout: 10m", "spec: {timeout: 10m}"):
        step = step_of(of_steps(f"- {{step: only, tool: {{kind: noop, timeout: 5}}, {text}}}"))
        assert (step.timeout, step.tasks[0].timeout) == (600.0, 5)


@pytest.mark.parametrize("text", ["pool: gpu", "spec: {pool: gpu}"])
def test_a_pool_is_handed_down_to_tasks_that_name_none(text: str) -> None:
    step = step_of(of_steps(f"- {{step: only, {text}, tool: [{{kind: noop}}, {{kind: noop, pool: big}}]}}"))

    assert [task.pool for task in step.tasks] == [Constant('"gpu"'), Constant('"big"')]


def test_selected_fields_are_kept_by_name() -> None:
    assert task_of(of_keys("output: {output_select: [id, paging.page]}")).select == ("id", "paging.page")


def test_the_description_of_a_step_is_kept_and_does_not_compare() -> None:
    one, other = (step_of(of_steps(f"- {{step: only, {key}: text}}")) for key in ("desc", "description"))

    assert one == other == step_of(of_steps("- step: only"))
    assert one.description == "text"


@pytest.mark.parametrize(
    "task",
    [
        "{kind: http, url: a, spec: {▸url: b}}",
        "{kind: http, url: a, spec: {▸endpoint: b}}",
        "{kind: http, url: a, timeout: 1, spec: {▸timeout: 2}}",
        "{kind: http, url: a, pool: x, spec: {▸pool: y}}",
        "{kind: http, url: a, ▸endpoint: b}",
        "{kind: http, url: a, ▸type: http}",
        "{kind: http, url: a, args: {}, ▸with: {}}",
        "{only: {kind: http, url: a, ▸name: other}}",
    ],
)
def test_what_is_said_twice_is_an_error(task: str) -> None:
    text, line, column = marked(of_steps(f"- {{step: a, tool: {task}}}"))

    assert found(text) == [("said-twice", line, column)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("kind: http, url: u, body: 1, json: 2", "'body' and 'json' exclude each other"),
        ("kind: http, url: u, json: 1, form: {a: 1}", "'json' and 'form' exclude each other"),
        ("kind: postgres, query: a, commands: [b]", "'query' and 'commands' exclude each other"),
        ("kind: postgres, query: a, auth: b, dsn: c", "'auth' and 'dsn' exclude each other"),
        ("kind: python, code: a, script: {file: b}", "'code' and 'script' exclude each other"),
        ("kind: shell, cmd: a, argv: [b]", "'cmd' and 'argv' exclude each other"),
        ("kind: wait, for: 1, signal: b", "'for' and 'signal' exclude each other"),
        ("kind: shell, cmd: a, spec: {argv: [b]}", "'cmd' and 'argv' exclude each other"),
    ],
)
def test_fields_that_exclude_each_other_are_an_error(fields: str, message: str) -> None:
    item = error(of_steps(f"- {{step: a, tool: {{{fields}}}}}"))

    assert (item.code, item.message, item.hint) == ("said-twice", message, "keep one of the two")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("kind: http", "a task of kind http needs 'url'"),
        ("kind: postgres", "a task of kind postgres needs 'command' or 'commands'"),
        ("kind: python", "a task of kind python needs 'code' or 'script'"),
        ("kind: duckdb", "a task of kind duckdb needs 'command' or 'commands'"),
        ("kind: shell", "a task of kind shell needs 'cmd' or 'cmds' or 'argv'"),
        ("kind: playbook", "a task of kind playbook needs 'path'"),
        ("kind: wait", "a task of kind wait needs 'for' or 'until' or 'signal'"),
        ("kind: rabbitmq", "a task of kind rabbitmq needs 'routing_key' or 'exchange'"),
    ],
)
def test_a_tool_says_what_it_cannot_do_without(fields: str, message: str) -> None:
    item = error(of_steps(f"- {{step: a, tool: {{{fields}}}}}"))

    assert (item.code, item.message) == ("missing-key", message)


def test_a_task_without_a_kind_is_an_error_beside_its_other_problems() -> None:
    assert [(item.code, item.message) for item in errors(of_steps("- {step: a, tool: {url: x, retry: 0}}"))] == [
        ("missing-key", "a task needs 'kind'"),
        ("wrong-type", "expected true, a number of attempts, a mapping, or a list of policies, found the number 0"),
    ]


def test_a_kind_that_a_plug_in_brings_is_known_as_any_other() -> None:
    kinds = BUILT_IN.with_tools(Kind("mail", "Send a mail.", {"to": Field(TEXT)}, (("to",),)))
    text = of_steps("- {step: only, tool: {kind: mail, to: me}}")

    assert compile_playbook(text, kinds=kinds).ok
    assert compile_playbook(text).errors[0].code == "unknown-kind"


def test_two_tasks_of_one_name_are_an_error() -> None:
    item = error(of_tasks("- {name: a, kind: noop}\n- {name: a, kind: noop}"))

    assert (item.code, item.line, item.column) == ("duplicate-name", 5, 9)
    assert item.hint == "a jump could not tell them apart"


def test_a_playbook_may_be_nothing_but_steps() -> None:  # req: A1
    plan = plan_of("workflow: [{step: a}]")

    assert (plan.name, plan.entry, plan.api_version, plan.strict) == ("playbook", "a", "redrive.io/v1", True)
