"""A task knows on which line of the playbook its code begins, so that tracebacks can say it."""

import pytest

from shared.language.codec import plan_from_json, plan_to_json
from shared.language.compile import compile_playbook
from shared.language.plan import Plan, Task

HEAD = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: {name: lines}
"""


def plan_of(text: str) -> Plan:
    plan = compile_playbook(HEAD + text).plan
    assert plan is not None
    return plan


def only_task(text: str) -> Task:
    return plan_of(text).steps[0].tasks[0]


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("{kind: python, code: 'result = 1'}", 6),
        ("\n      kind: python\n      code: result = 1", 8),
        ("\n      kind: python\n      code: |\n        result = 1", 9),
        ("\n      kind: python\n      code: |\n\n        result = 1", 9),
        ("\n      kind: python\n      spec:\n        code: |\n          result = 1", 10),
        ("\n      kind: python\n      script:\n        inline: |\n          result = 1", 10),
        ("{kind: python, script: {file: a.py}}", 0),
        ("{kind: noop}", 0),
    ],
)
def test_the_line_is_that_of_the_first_line_of_the_code(tool: str, line: int) -> None:
    assert only_task(f"workflow:\n  - step: run\n    tool: {tool}\n").code_line == line


def test_the_code_of_a_workbook_stands_in_the_workbook() -> None:
    text = """\
workbook:
  - name: count
    tool:
      kind: python
      code: |
        result = 1
workflow:
  - step: run
    tool: {kind: workbook, task: count}
"""

    assert only_task(text).code_line == 9


def test_the_line_is_kept_with_the_plan_but_is_no_part_of_what_it_means() -> None:
    early = plan_of("workflow:\n  - step: run\n    tool: {kind: python, code: 'result = 1'}\n")
    late = plan_of("workflow:\n  - step: run\n    tool:\n      kind: python\n      code: 'result = 1'\n")

    assert early == late
    assert plan_from_json(plan_to_json(late)).steps[0].tasks[0].code_line == 8


def test_a_plan_that_was_stored_without_the_line_can_still_be_read() -> None:
    plan = plan_of("workflow:\n  - step: run\n    tool: {kind: python, code: 'result = 1'}\n")
    stored = plan_to_json(plan)
    del stored["plan"]["steps"][0]["tasks"][0]["code_line"]

    assert plan_from_json(stored) == plan
    assert plan_from_json(stored).steps[0].tasks[0].code_line == 0
