"""Every YAML example of the five documents that the language grew from means what its document says."""

import json

import pytest

from shared.language.plan import (
    ALWAYS,
    ON_ERROR,
    Constant,
    Continue,
    Expression,
    Fail,
    Gather,
    Object,
    Plan,
    Repeat,
    Retry,
    Router,
    Rule,
    Task,
)
from tests.support.language import plan_of, rules_of, task_of
from tests.support.seed_examples import ARCHITECTURE, CANONICAL, DIAGRAM, DISTRIBUTED, EXAMPLES, MECHANISM


def plan(document: str, example: str) -> Plan:
    return plan_of(EXAMPLES[document, example])


def only(document: str, example: str) -> Task:
    (task,) = plan(document, example).steps[0].tasks
    return task


def retry(document: str, example: str) -> Retry:
    (found,) = (rule.then for rule in only(document, example).rules if isinstance(rule.then, Retry))
    return found


def repeat(document: str, example: str) -> Repeat:
    (found,) = (rule.then for rule in only(document, example).rules if isinstance(rule.then, Repeat))
    return found


def config(task: Task) -> dict[str, object]:
    match task.config:
        case Constant(json=text):
            return dict(json.loads(text))
        case Object(items=items):
            return {name: json.loads(item.json) if isinstance(item, Constant) else item for name, item in items}
        case _:
            raise AssertionError(task.config)


def shape(rules: tuple[Rule, ...]) -> list[tuple[str, str]]:
    return [(rule.when.on if rule.when.expression is None else f"{rule.when.on} if", type(rule.then).__name__)
            for rule in rules]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda key: ": ".join(key))
def test_every_example_has_a_plan(example: tuple[str, str]) -> None:
    assert plan_of(EXAMPLES[example]).steps


# Event-Driven Retry Architecture


def test_full_retry_configuration() -> None:  # req: A1, A2, A5, A18, B2, B5
    found = plan(ARCHITECTURE, "full retry configuration")
    task = only(ARCHITECTURE, "full retry configuration")

    assert (task.name, task.kind, config(task)) == ("fetch_data", "http", {"url": "https://api.example.com/data"})
    assert shape(task.rules) == [
        ("error if", "Fail"), ("success if", "Continue"), ("any if", "Retry"), ("error", "Fail"), ("any", "Continue"),
    ]  # fmt: skip
    assert [rule.when.text for rule in task.rules[:3]] == [
        "{{ status_code == 200 and success == True }}",
        "{{ status_code == 200 and success == True }}",
        "{{ status_code >= 500 or error != None }}",
    ]
    assert task.rules[2].then == Retry(5, "exponential", 1.0, 2.0, 60.0, "half")
    assert found.steps[0].next == Router("exclusive", (found.steps[0].next.arcs[0],))
    assert found.steps[0].next.arcs[0].step == "process_data"


def test_simplified_retry_configuration() -> None:  # req: A4, A6
    assert rules_of(EXAMPLES[ARCHITECTURE, "boolean"]) == rules_of(EXAMPLES[ARCHITECTURE, "integer"])
    assert retry(ARCHITECTURE, "boolean") == Retry(3, jitter="half")
    assert retry(ARCHITECTURE, "minimal") == Retry(5, jitter="half")
    assert only(ARCHITECTURE, "minimal").rules[0].when.text == "{{ status_code >= 500 }}"


# Retry Handling (Canonical)


@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
def test_schema_of_eval(backoff: str) -> None:  # req: A11, C5
    rules = only(CANONICAL, f"schema of eval, {backoff}").rules

    assert [rule.then for rule in rules] == [
        Retry(5, backoff, 1.0),  # type: ignore[arg-type]
        Continue(),
    ]
    assert rules[1].when == ALWAYS


def test_http_retry_on_5xx_and_429() -> None:  # req: A2, A13, A14, B19, B20
    task = only(CANONICAL, "http on 5xx and 429")

    assert task.name == "fetch_page"
    assert shape(task.rules) == [("any if", "Retry"), ("error", "Fail"), ("any", "Continue")]
    assert retry(CANONICAL, "http on 5xx and 429") == Retry(
        10, "exponential", Expression("{{ outcome.http.headers['retry-after'] | default(2) }}"), jitter="none"
    )
    fields = config(task)
    assert fields["method"] == "GET"
    assert fields["timeout"] == {"connect": 5, "read": 15}
    assert fields["params"] == Object(
        (("page", Expression("{{ iter.page }}")), ("pageSize", Expression("{{ iter.endpoint.page_size }}")))
    )


def test_postgres_retry_on_deadlock() -> None:  # req: B19
    task = only(CANONICAL, "postgres on deadlock")

    assert (task.name, task.kind) == ("store_page", "postgres")
    assert config(task) == {"auth": "pg_k8s", "command": "INSERT INTO ..."}
    assert retry(CANONICAL, "postgres on deadlock") == Retry(5, "exponential", 2.0)
    assert "['40001','40P01']" in task.rules[0].when.text


def test_python_retry_on_transient_exceptions() -> None:  # req: A13, B19
    task = only(CANONICAL, "python on transient exceptions")

    assert task.input == Object((("data", Expression("{{ _prev }}")),))
    assert config(task) == {"code": " ... "}
    assert retry(CANONICAL, "python on transient exceptions") == Retry(3, "fixed", 1.0)


def test_jitter_of_a_canonical_rule() -> None:  # req: A20, C7
    assert retry(CANONICAL, "jitter as an expression") == Retry(delay=Expression("{{ 2.0 * (0.5 + rand()) }}"))
    assert retry(CANONICAL, "jitter as an option of the tool") == Retry(jitter="half")


def test_migration() -> None:  # req: P2
    assert [rule.then for rule in only(CANONICAL, "migration, after").rules] == [Retry(5), Fail(), Continue()]
    assert retry(CANONICAL, "migration, before") == Retry(5, jitter="half")


# Retry Mechanism


def test_simple_and_full_configuration() -> None:  # req: C1, C2
    assert retry(MECHANISM, "boolean") == Retry(3, jitter="half")
    assert retry(MECHANISM, "integer") == Retry(5, jitter="half")
    assert retry(MECHANISM, "full configuration") == retry(MECHANISM, "boolean")
    assert shape(only(MECHANISM, "full configuration").rules)[:3] == [
        ("error if", "Fail"),
        ("success if", "Continue"),
        ("any if", "Retry"),
    ]


@pytest.mark.parametrize(
    ("condition", "on"),
    [
        ("status_code >= 500 and status_code < 600", "any if"),
        ("status_code in [500, 502, 503, 504]", "any if"),
        ("status_code != 200", "any if"),
        ("error != None", "error"),
        ("'timeout' in (error|lower)", "any if"),
        ("'deadlock' in (error|lower)", "any if"),
        ("success == False", "error"),
        ("attempt <= 2 and 'rate limit' in (error|lower)", "any if"),
        ("(attempt == 1 and status_code >= 500) or (attempt > 1 and status_code == 503)", "any if"),
        ("status_code in [429, 500, 502, 503]", "any if"),
        ("True", "any"),
    ],
)
def test_example_conditions(condition: str, on: str) -> None:  # req: B12
    assert shape(only(MECHANISM, f"condition {condition}").rules)[0] == (on, "Retry")


def test_stop_on_success() -> None:  # req: D5
    assert shape(only(MECHANISM, "stop on success").rules) == [("success", "Continue"), ("any", "Retry")]


def test_http_retry_on_server_errors() -> None:
    task = only(MECHANISM, "http on server errors")

    assert config(task) == {"method": "GET", "url": Expression("{{ api_url }}")}
    assert retry(MECHANISM, "http on server errors") == Retry(5, "exponential", 2.0, 2.0, 60.0, "half")


def test_python_task_with_exception_handling() -> None:  # req: A14, B13
    task = only(MECHANISM, "python with exception handling")

    assert str(config(task)["code"]).startswith("def main(input_data):\n")
    assert task.rules[0].when == ON_ERROR
    assert task.rules[0].then == Retry(3, delay=0.5, jitter="half")


def test_database_query_with_connection_retry() -> None:  # req: A14
    task = only(MECHANISM, "database query")

    assert config(task) == {"auth": "prod_db", "command": Expression("{{ sql_query }}")}
    assert retry(MECHANISM, "database query") == Retry(5, multiplier=1.5, jitter="half")


def test_duckdb_with_conditional_retry() -> None:
    task = only(MECHANISM, "duckdb")

    assert (task.kind, config(task)) == ("duckdb", {"command": Expression("{{ analysis_query }}")})
    assert task.rules[0].when.text == "{{ 'out of memory' in (error|lower) }}"
    assert task.rules[0].then == Retry(3, delay=0.5, jitter="half")


def test_best_practices() -> None:  # req: D6
    assert retry(MECHANISM, "reasonable attempts") == Retry(3, jitter="half")
    assert retry(MECHANISM, "appropriate delays") == Retry(delay=1.0, max_delay=30.0, jitter="half")
    assert retry(MECHANISM, "jitter") == Retry(jitter="half")
    assert shape(only(MECHANISM, "stop for early exit").rules) == [
        ("error if", "Fail"), ("success if", "Continue"), ("any if", "Retry"), ("error", "Fail"), ("any", "Continue"),
    ]  # fmt: skip


# Distributed Loop and Retry Architecture


@pytest.mark.parametrize(
    ("example", "source", "iterator", "mode", "in_flight"),
    [
        ("sink of a loop", "{{ users }}", "user", "parallel", 10),
        ("loop without retry", "{{ items }}", "item", "sequential", None),
        ("loop with retry", "{{ endpoints }}", "endpoint", "sequential", None),
        ("sink per iteration", "{{ items }}", "item", "sequential", None),
        ("sink per iteration and attempt", "{{ endpoints }}", "endpoint", "sequential", None),
    ],
)
def test_loops(example: str, source: str, iterator: str, mode: str, in_flight: int | None) -> None:  # req: A15, A17
    loop = plan(DISTRIBUTED, example).steps[0].loop

    assert loop is not None
    assert (loop.source, loop.iterator, loop.mode) == (Expression(source), iterator, mode)
    assert loop.max_in_flight == in_flight


@pytest.mark.parametrize(
    ("example", "sink"),
    [
        ("sink of a loop", {"table": "processed_users", "auth": "main_db"}),
        ("sink of a retry", {"table": "raw_data", "auth": "main_db", "mode": "append"}),
        ("sink per iteration", {"table": "results"}),
        ("sink per attempt", {"table": "raw_pages", "mode": "append"}),
        ("sink per iteration and attempt", {"table": "api_data"}),
    ],
)
def test_sinks(example: str, sink: dict[str, str]) -> None:  # req: A16, H1, H3
    found = only(DISTRIBUTED, example).sink

    assert found is not None
    assert isinstance(found.config, Constant)
    assert (found.kind, json.loads(found.config.json)) == ("postgres", sink)


def test_pagination_with_a_sink() -> None:  # req: A8, G2, G3, G5
    task = only(DISTRIBUTED, "sink of a retry")

    assert config(task)["params"] == {"page": 1, "pageSize": 100}
    page = Expression("{{ response.paging.page + 1 }}", dialect="legacy")
    assert repeat(DISTRIBUTED, "sink of a retry") == Repeat(
        100, Object((("params", Object((("page", page),))),)), Gather("append", ("data",))
    )
    assert shape(task.rules) == [("success if", "Repeat"), ("error", "Fail"), ("any", "Continue")]


@pytest.mark.parametrize("example", ["retry without loop", "loop with retry", "on_success of the event listing"])
def test_pagination_without_a_path_collects_every_result(example: str) -> None:  # req: A17, G4
    assert repeat(DISTRIBUTED, example).gather == Gather("collect")
    assert repeat(DISTRIBUTED, example).max_attempts == 100


@pytest.mark.parametrize("example", ["sink per attempt", "sink per iteration and attempt"])
def test_polling_repeats_the_same_call(example: str) -> None:
    assert repeat(DISTRIBUTED, example) == Repeat()


def test_on_error_of_the_event_listing() -> None:  # req: A8, C8
    assert retry(DISTRIBUTED, "on_error of the event listing") == Retry(3, "exponential", jitter="half")


def test_a_loop_without_retry_has_the_default_rules() -> None:
    assert shape(only(DISTRIBUTED, "loop without retry").rules) == [("error", "Fail"), ("any", "Continue")]


# Event-Driven Retry Architecture Diagram


def test_the_diagram_of_configuration_and_its_normal_forms() -> None:  # req: A7, A22
    assert task_of(EXAMPLES[DIAGRAM, "playbook"], "my_step").kind == "http"
    assert retry(DIAGRAM, "playbook") == Retry(3, jitter="half")
    assert rules_of(EXAMPLES[DIAGRAM, "boolean, normalised"]) == rules_of(EXAMPLES[ARCHITECTURE, "boolean"])
    assert rules_of(EXAMPLES[DIAGRAM, "integer, normalised"]) == rules_of(EXAMPLES[MECHANISM, "integer"])
