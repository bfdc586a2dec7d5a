"""Where tasks run: the pool of the task, else of its step, else of the playbook, by name or by expression."""

from __future__ import annotations

import pytest

from shared.contracts.pools import MAX_POOL_CHARS, pool_problem
from shared.language.plan import Constant, Expression
from tests.support.deciding import play
from tests.support.language import errors, of_steps, plan_of, step_of

HEAD = "apiVersion: redrive.io/v1\nmetadata: {name: t}\nexecutor: {spec: {pool: POOL}}\n"


def pools(steps: str, pool: str | None = None, **workload: str) -> list[str]:
    head = "" if pool is None else HEAD.replace("POOL", pool)
    played = play(of_steps(steps, head) if head else steps, workload=dict(workload))
    return [job.pool for job in played.jobs]


def test_without_a_name_a_task_runs_in_the_default_pool() -> None:
    assert pools("- { step: a, tool: noop }") == ["default"]


def test_the_nearest_name_counts() -> None:
    steps = """
    - step: a
      pool: step
      tool: [ { kind: noop }, { kind: noop, pool: task } ]
      next: b
    - { step: b, tool: noop }
    """

    assert pools(steps, "playbook") == ["step", "task", "playbook"]


def test_every_level_may_be_an_expression() -> None:
    steps = """
    - step: a
      pool: "{{ workload.step }}"
      tool: [ { kind: noop }, { kind: noop, pool: "{{ 'gpu.' ~ workload.task }}" } ]
      next: b
    - { step: b, tool: noop }
    """

    found = pools(steps, "'{{ workload.all }}'", step="s", task="t", all="everywhere")

    assert found == ["s", "gpu.t", "everywhere"]


def test_an_expression_of_the_playbook_is_handed_down_and_a_name_is_not() -> None:
    step = "- { step: only, tool: noop }"
    by_expression = of_steps(step, HEAD.replace("POOL", "'{{ workload.p }}'"))

    (task,) = step_of(by_expression).tasks
    assert isinstance(task.pool, Expression)
    assert plan_of(by_expression).pool is None
    assert plan_of(of_steps(step, HEAD.replace("POOL", "gpu"))).pool == "gpu"
    assert step_of(of_steps("- { step: only, pool: gpu, tool: noop }")).tasks[0].pool == Constant('"gpu"')


BAD = ["a b", "a..b", ".a", "*", "a.#", "ü", "orchestrator", "x" * (MAX_POOL_CHARS + 1)]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_cannot_be_one_is_the_outcome_of_the_attempt(name: str) -> None:
    for steps, pool in (
        ("- { step: a, tool: { kind: noop, pool: '{{ workload.name }}' } }", None),
        ("- { step: a, pool: '{{ workload.name }}', tool: noop }", None),
        ("- { step: a, tool: noop }", "'{{ workload.name }}'"),
    ):
        head = "" if pool is None else HEAD.replace("POOL", pool)
        played = play(of_steps(steps, head) if head else steps, workload={"name": name})

        assert [(job.kind, job.pool) for job in played.jobs] == [("error", "default")]
        assert (played.error["kind"], played.error["retryable"]) == ("expression", False)
        assert "cannot name a pool" in played.error["message"]


@pytest.mark.parametrize("value", ["{{ workload }}", "{{ [1, 2] }}"])
def test_a_value_that_is_no_text_cannot_name_a_pool(value: str) -> None:
    played = play(f"- {{ step: a, tool: {{ kind: noop, pool: '{value}' }} }}", workload={"a": 1})

    assert "cannot name a pool" in played.error["message"]


@pytest.mark.parametrize("value", ["''", "{{ none }}"])
def test_a_value_that_says_nothing_means_the_default_pool(value: str) -> None:
    assert pools(f'- {{ step: a, tool: {{ kind: noop, pool: "{{{{ {value.strip("{} ")} }}}}" }} }}') == ["default"]


@pytest.mark.parametrize("name", ["a b", "orchestrator"])
@pytest.mark.parametrize(
    ("steps", "head"),
    [
        ("- { step: a, tool: { kind: noop, pool: NAME } }", ""),
        ("- { step: a, pool: NAME, tool: noop }", ""),
        ("- {step: a, loop: {cursor: {kind: postgres, claim: c, dsn: d, pool: NAME}, iterator: x}, tool: noop}", ""),
        ("- { step: a, tool: noop }", HEAD.replace("POOL", "NAME")),
    ],
    ids=["task", "step", "cursor", "playbook"],
)  # fmt: skip
def test_a_name_that_is_written_out_is_checked_with_the_playbook(steps: str, head: str, name: str) -> None:
    text = of_steps(steps, head).replace("NAME", f"'{name}'")

    (found,) = [item for item in errors(text) if item.code == "pool-name"]

    assert "cannot name a pool" in found.message
    assert text.splitlines()[found.line - 1][found.column - 1 :].startswith(f"'{name}'")


@pytest.mark.parametrize("name", ["default", "gpu.large", "a-b_c.1", "x" * MAX_POOL_CHARS])
def test_a_name_of_words_names_a_pool(name: str) -> None:
    assert pool_problem(name) is None
