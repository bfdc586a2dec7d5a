"""Where `keychain` may be read, and what is said where it may not."""

from __future__ import annotations

import pytest

from tests.support.language import error, found, marked, of_keys, of_steps, of_tasks, plan_of

K = "{{ keychain.api.token }}"

ALLOWED = [
    of_keys(f"headers: {{t: '{K}'}}\nparams: {{a: ['{K}']}}"),
    of_keys(f"input: {{t: '{K}', deep: {{x: ['{K}']}}}}\nheaders: {{a: '{{{{ t }}}}', b: '{{{{ args.t }}}}'}}"),
    of_keys(f"sink: {{tool: postgres, table: t, data: {{who: '{K}'}}}}"),
    of_steps(f"- {{step: a, args: {{t: '{K}'}}, tool: [{{kind: http, url: u}}, {{kind: wait, for: 1}}]}}"),
    of_steps(f"- {{step: a, loop: {{in: 3}}, tool: {{kind: http, url: u, body: '{K}'}}}}"),
    of_tasks(f"- {{kind: noop, input: {{t: '{K}', n: 1}}, eval: [{{expr: '{{{{ n == args.n }}}}', do: break}}]}}"),
    of_tasks(f"- {{kind: noop, input: {{result: '{K}'}}, eval: [{{expr: '{{{{ result }}}}', do: break}}]}}"),
    of_tasks(f"- {{kind: noop, input: {{error: '{K}'}}, retry: {{retry_when: '{{{{ error }}}}'}}}}"),
    of_steps(f"- {{step: a, args: {{t: '{K}'}}, tool: {{kind: noop, input: {{t: 1}},"
             " eval: [{expr: '{{ t == 1 }}', do: break}]}}"),
    of_keys("params: {a: '{% set keychain = {} %}{{ keychain }}'}\neval: [{expr: '{{ \"keychain\" }}', do: break}]"),
]  # fmt: skip


@pytest.mark.parametrize("text", ALLOWED)
def test_the_fields_the_input_and_the_sink_of_a_task_may_read_the_keychain(text: str) -> None:
    assert plan_of(text).steps


ELSEWHERE = [
    of_steps(f"- {{step: a, when: ▸'{K}', tool: noop}}"),
    of_steps(f"- {{step: a, tool: noop, set: {{ctx.x: ▸'{K}'}}}}"),
    of_steps(f"- {{step: a, timeout: ▸'{K}', tool: noop}}"),
    of_steps(f"- {{step: a, loop: {{in: [1, ▸'{K}']}}, tool: noop}}"),
    of_steps(f"- {{step: a, loop: {{in: 3, max_in_flight: ▸'{K}', mode: parallel}}, tool: noop}}"),
    of_steps(f"- {{step: a, loop: {{in: 3, where: ▸'{K}'}}, tool: noop}}"),
    of_steps(f"- {{step: a, tool: noop, next: [{{step: b, when: ▸'{K}'}}]}}\n- {{step: b}}"),
    of_steps(f"- {{step: a, tool: noop, next: [{{step: b, args: {{x: {{y: ▸'{K}'}}}}}}]}}\n- {{step: b}}"),
    of_steps(f"- {{step: a, tool: noop, next: [{{step: b, set: {{x: ▸'{K}'}}}}]}}\n- {{step: b}}"),
    of_steps("- {step: a, tool: noop}", f"result: {{x: ▸'{K}'}}\n"),
    of_tasks(f"- {{kind: noop, set: {{x: ▸'{K}'}}}}"),
    of_tasks(f"- {{kind: noop, timeout: ▸'{K}'}}"),
    of_tasks(f"- {{kind: noop, pool: ▸'{K}'}}"),
    of_tasks(f"- {{kind: noop, eval: [{{expr: ▸'{K}', do: break}}]}}"),
    of_tasks(f"- {{kind: noop, eval: [{{expr: '{{{{ x }}}}', do: retry, delay: ▸'{K}'}}]}}"),
    of_tasks(f"- {{kind: noop, eval: [{{else: {{do: continue, set_ctx: {{x: ▸'{K}'}}}}}}]}}"),
    of_keys(f"retry: {{on_success: {{while: '{{{{ x }}}}', max_attempts: 2, next_call: {{params: {{a: ▸'{K}'}}}}}}}}"),
    of_keys("retry: {retry_when: ▸\"{{ keychain['api'] }}\"}"),
]
UNFILLED = [
    of_tasks(f"- {{kind: wait, for: ▸'{K}'}}"),
    of_tasks(f"- {{kind: playbook, path: ▸'{K}'}}"),
    of_tasks(f"- {{kind: playbook, path: p, input: {{x: ▸'{K}'}}}}"),
    of_steps(f"- {{step: a, args: {{t: ▸'{K}'}}, tool: {{kind: playbook, path: p}}}}"),
    of_tasks(f"- {{kind: noop, input: ▸'{K}'}}"),
]
BY_ARGUMENT = [
    of_tasks(f"- {{kind: noop, input: {{t: '{K}'}}, eval: [{{expr: ▸'{{{{ t }}}}', do: break}}]}}"),
    of_tasks(f"- {{kind: noop, input: {{t: ['{K}']}}, eval: [{{expr: ▸'{{{{ args.t[0] }}}}', do: break}}]}}"),
    of_tasks(f"- {{kind: noop, input: {{t: '{K}'}}, timeout: ▸'{{{{ t }}}}'}}"),
    of_steps(f"- {{step: a, args: {{t: '{K}'}}, tool: {{kind: noop, input: {{u: 'x{{{{ t }}}}'}},"
             " eval: [{expr: ▸'{{ u }}', do: break}]}}"),
    of_steps(f"- {{step: a, args: {{t: '{K}'}}, tool: {{kind: wait, for: ▸'{{{{ t }}}}'}}}}"),
]  # fmt: skip


@pytest.mark.parametrize("text", [*ELSEWHERE, *UNFILLED, *BY_ARGUMENT])
def test_anywhere_else_it_is_an_error_at_its_place(text: str) -> None:
    source, line, column = marked(text)

    assert found(source) == [("keychain-place", line, column)]


def test_what_is_said_names_the_places_where_it_may_be_read() -> None:
    item = error(marked(ELSEWHERE[0])[0])

    assert item.message == "'keychain' can be read in the fields, the input and the sink of a task, and not here"
    assert item.hint is not None
    assert "secret" in item.hint


def test_an_argument_that_needs_the_keychain_is_named() -> None:
    item = error(marked(BY_ARGUMENT[0])[0])

    assert item.message == "the argument 't' needs the 'keychain', so that it cannot be read here"
