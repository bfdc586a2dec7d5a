"""Every problem at once, each at its place, with what was expected and what was probably meant."""

import json
from textwrap import dedent

import pytest

from shared.language.compile import compile_playbook
from shared.language.diagnostics import (
    MAX_DIAGNOSTICS,
    MAX_LISTED,
    MAX_TEXT,
    Diagnostic,
    Report,
    Severity,
    did_you_mean,
    listed,
    nearest,
    render,
)
from shared.language.place import Place, lines_of, place_at
from tests.support.language import advice, error, errors, marked, of_keys, of_steps, of_tasks

UNKNOWN: dict[str, tuple[str, str, str, str | None]] = {
    "a key of the playbook": (
        "▸workflows: []\nworkflow: [{step: a}]\n",
        "unknown-key", "unknown key 'workflows' in a playbook", "did you mean 'workflow'?",
    ),
    "a key like no other": (
        "▸zzz: 1\nworkflow: [{step: a}]\n",
        "unknown-key", "unknown key 'zzz' in a playbook",
        "a playbook has: apiVersion, kind, metadata, workload, keychain, executor, workbook, workflow, result",
    ),
    "a key of a step": (
        of_steps("- {step: a, ▸nxt: b}"), "unknown-key", "unknown key 'nxt' in a step", "did you mean 'next'?",
    ),
    "a key of a task": (
        of_keys("▸heders: {}"), "unknown-key", "unknown key 'heders' in an http step", "did you mean 'headers'?",
    ),
    "a key of another kind": (
        of_tasks("- {kind: noop, ▸url: x}"), "unknown-key", "unknown key 'url' in a noop task",
        "a noop task has: kind, desc, eval, retry, sink, set, output, timeout, pool, input, name, spec",
    ),
    "a key under spec": (
        of_tasks("- {kind: http, url: u, spec: {▸tiemout: 5}}"),
        "unknown-key", "unknown key 'tiemout' in spec of http task", "did you mean 'timeout'?",
    ),
    "a kind": (
        of_steps("- {step: a, tool: ▸htpp, url: x}"), "unknown-kind", "unknown kind 'htpp'", "did you mean 'http'?",
    ),
    "a kind like no other": (
        of_steps("- {step: a, tool: ▸zzz}"), "unknown-kind", "unknown kind 'zzz'",
        "expected one of: artifact, duckdb, http, noop, playbook, postgres, python, rabbitmq, shell, wait, workbook",
    ),
    "a directive": (
        of_tasks("- {kind: noop, eval: [{expr: true, do: ▸rety}]}"),
        "unknown-directive", "unknown directive 'rety'", "did you mean 'retry'?",
    ),
    "an option": (
        of_tasks("- {kind: noop, eval: [{expr: true, do: retry, ▸atempts: 5}]}"),
        "unknown-key", "unknown key 'atempts' in a rule", "did you mean 'attempts'?",
    ),
    "an option of another directive": (
        of_tasks("- {kind: noop, eval: [{expr: true, do: fail, ▸attempts: 5}]}"),
        "wrong-option", "'attempts' has no meaning for 'do: fail'", "it belongs to: retry",
    ),
    "a step": (
        of_steps("- {step: fetch, next: ▸fetsh}"), "unknown-step", "no step 'fetsh'", "did you mean 'fetch'?",
    ),
    "an entry": (
        of_steps("- step: fetch", "executor: {spec: {entry_step: ▸fetsh}}\n"),
        "unknown-step", "no step 'fetsh'", "did you mean 'fetch'?",
    ),
    "a label": (
        of_tasks("- {name: load, kind: noop, eval: [{expr: true, do: jump, to: ▸loda}]}"),
        "unknown-label", "no task 'loda' in this pipeline", "did you mean 'load'?",
    ),
    "a label where attempts are spent": (
        of_tasks("- {name: load, kind: noop, retry: {on_exhausted: {jump: ▸loda}}}"),
        "unknown-label", "no task 'loda' in this pipeline", "did you mean 'load'?",
    ),
    "a task of the workbook": (
        of_steps("- {step: a, tool: workbook, name: ▸lod}", "workbook: [{name: load, kind: noop}]\n"),
        "unknown-task", "no task 'lod' in the workbook", "did you mean 'load'?",
    ),
    "a sink": (
        of_keys("sink: {tool: ▸postgre, table: t}"),
        "unknown-kind", "unknown sink 'postgre'", "did you mean 'postgres'?",
    ),
    "a mode": (
        of_steps("- {step: a, loop: {in: 3, mode: ▸paralel}}"),
        "wrong-choice", "unknown loop mode 'paralel'", "did you mean 'parallel'?",
    ),
    "a version": (
        "apiVersion: ▸redrive.io/v3\nworkflow: [{step: a}]\n",
        "wrong-choice", "unknown apiVersion 'redrive.io/v3'", "did you mean 'redrive.io/v1'?",
    ),
    "a filter": (
        of_keys("params: {a: '{{ x | ▸lowr }}'}"), "template-syntax",
        "the expression is not valid: unknown filter 'lowr'", "did you mean 'lower'?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNKNOWN)
def test_whatever_is_unknown_is_an_error_with_its_place_and_a_suggestion(what: str) -> None:
    text, code, message, hint = UNKNOWN[what]
    source, line, column = marked(text)
    item = error(source)

    assert (item.code, item.line, item.column) == (code, line, column)
    assert (item.message, item.hint) == (message, hint)
    assert item.severity is Severity.ERROR


@pytest.mark.parametrize("auth", ["▸pg_mian", "{credential: ▸pg_mian}"])
def test_a_credential_that_the_keychain_does_not_name_is_advice(auth: str) -> None:
    keychain = "keychain: [{name: pg_main, kind: postgres_credential}]\n"
    source, line, column = marked(of_steps(f"- {{step: a, tool: postgres, command: c, auth: {auth}}}", keychain))
    (item,) = (item for item in advice(source) if item.code == "unknown-credential")

    assert (item.line, item.column, item.severity) == (line, column, Severity.WARNING)
    assert (item.message, item.hint) == ("the keychain names no credential 'pg_mian'", "did you mean 'pg_main'?")


@pytest.mark.parametrize("text", ["keychain: [{name: pg}]\n", ""])
def test_a_credential_is_fine_that_is_named_or_where_there_is_no_keychain(text: str) -> None:
    assert advice(of_steps("- {step: a, tool: postgres, command: c, auth: pg}", text)) == ()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("timeout: soon",
         "expected a duration: seconds, '500ms', '2m', '1h30m' or an expression, found the text 'soon'", None),
        ("timeout: {conect: 5}", "unknown key 'conect' in a timeout", "did you mean 'connect'?"),
        ("follow_redirects: yes", "expected true or false, found the text 'yes'", "write true"),
        ("follow_redirects: off", "expected true or false, found the text 'off'", "write false"),
        ("expect: 99", "expected a status such as 404, or a class such as '2xx', found the number 99", None),
        ("expect: []", "expected a list of statuses with at least 1 in it", None),
        ("max_body: big", "expected a size: bytes, '64KB', '10MB', found the text 'big'", None),
        ("method: 5", "expected a text, found the number 5", "put it in quotes"),
        ("method: [GET]", "expected a text, found a list", None),
        ("headers: accept",
         "expected an expression \"{{ … }}\", found the text 'accept'", 'write it as an expression: "{{ accept }}"'),
        ("headers: [a]", "expected a mapping or an expression, found a list", None),
        ("auth: {type: basic}", "an auth needs 'credential'", None),
        ("output: {output_select: id}", "expected a list, found the text 'id'", None),
        ("pool:", "expected a text, found nothing", "leave the key out, or give it a value"),
        ("loop: {}", "a loop needs 'in' or 'cursor'", None),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected_and_what_was_found(text: str, message: str, hint: str | None) -> None:
    item = error(of_keys(text))

    assert (item.message, item.hint) == (message, hint)


BROKEN = dedent(
    """\
    apiVersion: redrive.io/v1
    metadata: {nam: x}
    workflow:
      - step: fetch
        tool:
          - name: get
            kind: htp
            retry: 0
          - name: load
            kind: http
            eval:
              - expr: "{{ outcome.status = 'error' }}"
                do: rety
              - expr: "{{ x }}"
                do: jump
                to: gat
        next: [nowhere, {step: fetch, wen: true}]
      - step: fetch
        loop: {in: users, mode: sideways}
        join: {of: [nobody]}
    """
)


def test_all_problems_come_at_once_in_the_order_of_the_text() -> None:
    assert [(item.line, item.column, item.code) for item in errors(BROKEN)] == [
        (2, 12, "unknown-key"),
        (7, 15, "unknown-kind"),
        (8, 16, "wrong-type"),
        (9, 9, "missing-key"),
        (12, 38, "template-syntax"),
        (13, 17, "unknown-directive"),
        (16, 17, "unknown-label"),
        (17, 12, "unknown-step"),
        (17, 35, "unknown-key"),
        (18, 5, "duplicate-name"),
        (19, 16, "wrong-type"),
        (19, 29, "wrong-choice"),
        (20, 17, "unknown-step"),
    ]


def test_a_problem_of_yaml_does_not_hide_those_of_the_language() -> None:
    text = "workflow:\n- {step: a, tool: http, url: {{ x }}, nxt: b}\n- {step: a}\n"

    assert [item.code for item in errors(text)] == ["unquoted-template", "unknown-key", "duplicate-name"]


@pytest.mark.parametrize(
    "text",
    [
        "workflow:\n- step: a\n  when: '{{ x ▸= 1 }}'\n",
        'workflow:\n- step: a\n  when: "{{ x ▸= 1 }}"\n',
        "workflow:\n- step: a\n  when: |\n    {{ y }}\n    {{ x ▸= 1 }}\n",
        "workflow:\n- step: a\n  when: |\n\n      {{ x ▸= 1 }}\n",
        "workflow:\n- step: a\n  when: ▸'{{ y\n    }} {{ x = 1 }}'\n",
    ],
)
def test_a_problem_in_an_expression_is_shown_inside_it_where_the_layout_tells(text: str) -> None:
    source, line, column = marked(text)
    item = error(source)

    assert (item.code, item.line, item.column) == ("template-syntax", line, column)


def test_one_place_and_one_message_are_reported_once() -> None:
    report = Report("a.yaml")
    for _ in range(3):
        report.error("code", Place(1, 2), "message")

    assert report.diagnostics() == (Diagnostic("a.yaml", 1, 2, Severity.ERROR, "code", "message"),)


def test_an_aliased_mistake_is_reported_once() -> None:
    text = "workflow:\n- {step: a, tool: &t {kind: htp}}\n- {step: b, tool: *t}\n"

    assert [(item.code, item.line) for item in errors(text)] == [("unknown-kind", 2)]


def test_a_report_shows_no_more_than_a_person_can_read() -> None:
    found = errors("".join(f"zzz{n}: 1\n" for n in range(1000)) + "workflow: [{step: a}]\n")

    assert len(found) == MAX_DIAGNOSTICS + 1
    assert found[-1].code == "too-many-problems"
    assert found[-1].message == "800 more findings are not shown"
    assert found[-1].severity is Severity.ERROR


def test_facts_never_crowd_out_warnings_nor_become_errors() -> None:
    report = Report("a.yaml")
    for number in range(300):
        report.info("fact", Place(number + 1, 1), "fact")
    report.warning("advice", Place(1000, 1), "advice")
    found = report.diagnostics()

    assert [item.code for item in found[-2:]] == ["advice", "too-many-problems"]
    assert found[-1].severity is Severity.INFO
    assert not report.has_errors


def test_a_hint_is_looked_for_only_where_it_is_kept() -> None:
    asked: list[int] = []
    report = Report("a.yaml")

    def hint() -> str:
        asked.append(1)
        return "hint"

    for number in range(MAX_DIAGNOSTICS + 50):
        report.error("code", Place(number + 1, 1), "message", hint)

    assert len(asked) == MAX_DIAGNOSTICS


@pytest.mark.parametrize(
    "text",
    [
        f"{'k' * 100_000}: 1\nworkflow: [{{step: a}}]\n",
        f"workflow: [{{step: a, next: {'s' * 100_000}}}]\n",
        f"workflow: [{{step: {'s' * 100_000}}}]\n",
        f"workflow: [{{step: a, tool: {'t' * 100_000}}}]\n",
        f"workflow: [{{step: a, when: {'w' * 100_000}}}]\n",
        '"\\e[31mred\\n": 1\nworkflow: [{step: a}]\n',
        'workflow: [{step: a, next: "\\e]0;title\\a"}]\n',
    ],
)
def test_a_message_is_short_and_harmless_whatever_the_author_wrote(text: str) -> None:
    for item in errors(text):
        for said in (item.message, item.hint or ""):
            assert len(said) <= MAX_TEXT
            assert said.isprintable()


def test_a_diagnostic_is_json() -> None:
    (item,) = errors(of_steps("- {step: a, nxt: b}"))

    assert json.loads(json.dumps(item.as_json())) == {
        "file": "playbook.yaml",
        "line": 2,
        "column": 15,
        "severity": "error",
        "code": "unknown-key",
        "message": "unknown key 'nxt' in a step",
        "hint": "did you mean 'next'?",
    }


def test_the_file_is_named_as_it_was_given() -> None:
    assert compile_playbook("", "flows/a.yaml").errors[0].file == "flows/a.yaml"


TWO = dedent(
    """\
    workflow:
      - step: fetch
        tool: http
        url: http://api
        retry: {max_attempt: 5}
        next: fetsh
    """
)
PLAIN = """\
playbook.yaml:5:13: error[unknown-key]: unknown key 'max_attempt' in a retry
  5 |     retry: {max_attempt: 5}
    |             ^^^^^^^^^^^
  hint: did you mean 'max_attempts'?

playbook.yaml:6:11: error[unknown-step]: no step 'fetsh'
  6 |     next: fetsh
    |           ^^^^^
  hint: did you mean 'fetch'?"""
COLOURED = """\
\x1b[1mplaybook.yaml:5:13\x1b[0m: \x1b[31;1merror\x1b[0m[unknown-key]: unknown key 'max_attempt' in a retry
  \x1b[2m5 |\x1b[0m     retry: {max_attempt: 5}
  \x1b[2m  |\x1b[0m \x1b[31;1m            ^^^^^^^^^^^\x1b[0m
  \x1b[36mhint\x1b[0m: did you mean 'max_attempts'?

\x1b[1mplaybook.yaml:6:11\x1b[0m: \x1b[31;1merror\x1b[0m[unknown-step]: no step 'fetsh'
  \x1b[2m6 |\x1b[0m     next: fetsh
  \x1b[2m  |\x1b[0m \x1b[31;1m          ^^^^^\x1b[0m
  \x1b[36mhint\x1b[0m: did you mean 'fetch'?"""


def test_problems_are_shown_with_the_line_and_a_caret() -> None:
    assert render(errors(TWO), TWO) == PLAIN


def test_problems_are_shown_in_colours() -> None:
    assert render(errors(TWO), TWO, colour=True) == COLOURED


def shown(source: str, place: Place, severity: str = "error") -> list[str]:
    report = Report("f")
    getattr(report, severity)("code", place, "message")
    return render(report.diagnostics(), source).split("\n")


def test_warnings_and_facts_are_called_so() -> None:
    assert shown("x", Place(1, 1), "warning")[0] == "f:1:1: warning[code]: message"
    assert shown("x", Place(1, 1), "info")[0] == "f:1:1: info[code]: message"


def test_the_gutter_grows_with_the_number_of_the_line() -> None:
    assert shown("\n" * 99 + "abc", Place(100, 2))[1:] == ["  100 | abc", "      |  ^"]


def test_a_long_line_is_cut_around_the_caret() -> None:
    text, caret = shown("x" * 500 + "HERE" + "y" * 500, Place(1, 501, 4))[1:]

    assert len(text) < 200
    assert text[caret.index("^") : caret.index("^") + 4] == "HERE"
    assert caret.count("^") == 4


@pytest.mark.parametrize("before", ["漢字: ", "é: ", "e\u0301: ", "\tx: ", "ａ: "])
def test_the_caret_stands_under_its_character_whatever_stands_before(before: str) -> None:
    _, text, caret = shown(before + "HERE", Place(1, len(before) + 1, 4))

    columns = {"漢": 2, "字": 2, "ａ": 2, "\u0301": 0}
    assert caret.index("^") == sum(columns.get(char, 1) for char in text[: text.index("HERE")])


def test_what_a_terminal_would_act_on_is_replaced() -> None:
    assert shown("a\x1b[31mb", Place(1, 1))[1] == "  1 | a·[31mb"


def test_a_place_outside_the_text_is_shown_without_a_line() -> None:
    assert shown("a", Place(7, 1)) == ["f:7:1: error[code]: message"]


def test_a_mark_at_the_head_of_the_file_does_not_shift_the_caret() -> None:
    assert shown("\ufeffabc", Place(1, 2))[1:] == ["  1 | abc", "    |  ^"]


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("rety", ["retry", "jump"], "retry"),
        ("RETRY", ["retry"], "retry"),
        ("fetch", ["FETCH"], "FETCH"),
        ("zzz", ["retry"], None),
        ("x" * 10_000, ["retry"], None),
        ("", ["retry"], None),
    ],
)
def test_the_nearest_word_is_found_whatever_its_case(word: str, known: list[str], expected: str | None) -> None:
    assert nearest(word, known) == expected


def test_a_long_list_is_cut_to_the_words_that_come_nearest() -> None:
    words = [f"step_{n}" for n in range(50)] + ["zebra"]

    said = listed(words, "zeppelin")
    assert said.endswith(f"and {51 - MAX_LISTED} more")
    assert "zebra" in said
    assert listed(["a", "b"], "x") == "a, b"


def test_sets_are_listed_in_a_fixed_order() -> None:
    assert did_you_mean("zzz", {"c", "a", "b"}) == "expected one of: a, b, c"


def test_no_hint_lists_more_than_a_dozen_words() -> None:
    item = error(of_keys("zzz: 1"))

    assert item.hint is not None
    assert item.hint.count(",") == MAX_LISTED - 1
    assert item.hint.startswith("an http step has: kind, method, url, headers, params, body")


def test_lines_are_those_of_yaml() -> None:
    assert lines_of("a\r\nb\rc\nd\x85e\u2028f\u2029g\x0bh") == ["a", "b", "c", "d", "e", "f", "g\x0bh"]
    assert place_at("ab\ncd", 4) == Place(2, 2)
