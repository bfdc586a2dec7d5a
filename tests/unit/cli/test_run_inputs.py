"""What `redrive run` is given: workload, scripts, other playbooks, credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.cli.local_keychain import credential_of
from services.cli.run_inputs import InputError, credentials_of, read_playbook, read_playbooks, workload_of
from services.cli.run_report import Report
from services.cli.run_scripts import inline_scripts
from shared.errors import RejectedError
from shared.language.compile import compile_playbook
from tests.unit.cli.run_events import FLAKY_STEP, attempt, event

ONE_STEP = (
    "apiVersion: redrive.io/v1\nmetadata: {{ name: {name}, path: {path} }}\nworkflow: [{{step: a, tool: noop}}]\n"
)
SCRIPTS = """\
apiVersion: redrive.io/v1
workflow:
  - step: a
    tool: { kind: python, script: { file: one.py } }
    next: b
  - step: b
    tool:
      kind: python
      script:
        "file": 'two.py' # kept
    next: c
  - step: c
    tool: { kind: http, url: x, body: { kind: other, script: { file: one.py } } }
"""
HARD = 'result = "é \\" \\\\ 😀 {{ no }}"\n\tx\u2028y\r\n'


def test_settings_are_yaml_split_at_the_first_equals_sign_and_dots_descend(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("a: { b: 1, c: 2 }\nkept: yes\n")

    found = workload_of(str(file), ["a.b=[1, 2]", "url=http://x/?q=1", "n=3", "t='3'", "empty=", "x.y.z=true"])

    assert found == {
        "a": {"b": [1, 2], "c": 2},
        "kept": "yes",
        "url": "http://x/?q=1",
        "n": 3,
        "t": "3",
        "empty": None,
        "x": {"y": {"z": True}},
    }


@pytest.mark.parametrize("setting", ["novalue", "=1", "a..b=1", ".a=1", "a=[1", "a={b"])
def test_a_setting_that_cannot_be_read_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="--set"):
        workload_of(None, [setting])


def test_a_workload_is_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("[1]")

    with pytest.raises(InputError, match="mapping"):
        workload_of(str(file), [])
    with pytest.raises(InputError, match="No such file"):
        workload_of(str(tmp_path / "none.yaml"), [])


def test_scripts_take_the_place_of_their_files_and_every_line_stays_where_it_was() -> None:
    made = inline_scripts(SCRIPTS, "p.yaml", {"one.py": HARD, "two.py": "result = 2\n"}.__getitem__)

    assert made.problems == ()
    assert len(made.text.splitlines()) == len(SCRIPTS.splitlines())
    assert made.text.splitlines()[9].endswith("# kept")
    assert "file: one.py" in made.text.splitlines()[12]
    plan = compile_playbook(made.text).plan
    assert plan is not None
    assert compile_playbook(SCRIPTS).plan is not None
    assert "\\u2028" in made.text


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ("uri: jobs/one.py", "jobs/one.py"),
        ("uri: file:///srv/my%20jobs/one.py", "/srv/my jobs/one.py"),
        ("uri: 'https://host/one.py'", None),
        ("uri: '{{ workload.script }}'", None),
    ],
)
def test_an_address_of_a_file_is_read_and_another_one_is_left_to_the_worker(script: str, asked: str | None) -> None:
    found: list[str] = []

    made = inline_scripts(
        f"apiVersion: redrive.io/v1\nworkflow:\n  - {{ step: a, tool: python, script: {{ {script} }} }}\n",
        "p.yaml",
        lambda name: found.append(name) or "result = 1",  # type: ignore[func-returns-value]
    )

    assert (found, made.problems) == ([] if asked is None else [asked], ())
    assert ("inline" in made.text) == (asked is not None)


def test_a_script_reads_back_as_it_was() -> None:
    import yaml

    made = inline_scripts(SCRIPTS, "p.yaml", lambda name: HARD)

    assert yaml.safe_load(made.text)["workflow"][0]["tool"]["script"] == {"inline": HARD}


def test_a_script_that_is_not_there_is_pointed_at(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(SCRIPTS)

    with pytest.raises(InputError) as caught:
        read_playbook(str(file), colour=False)

    assert f"{file}:4:43: error[script-file]: there is no file 'one.py'" in str(caught.value)
    assert "^^^^^^" in str(caught.value)


def test_a_script_is_looked_for_beside_the_playbook_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "one.py").write_text("result = 'beside'")
    (tmp_path / "one.py").write_text("result = 'here'")
    (tmp_path / "two.py").write_text("result = 'only here'")
    (tmp_path / "books" / "p.yaml").write_text(SCRIPTS)
    monkeypatch.chdir(tmp_path)

    text = read_playbook("books/p.yaml", colour=False).text

    assert "'beside'" in text
    assert "'only here'" in text


def test_playbooks_of_a_folder_are_known_by_their_paths_and_other_files_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(ONE_STEP.format(name="a", path="x/a"))
    (tmp_path / "notes.yaml").write_text("tests: []\nplaybook: a.yaml\n")

    assert [found.path for found in read_playbooks([str(tmp_path)], colour=False)] == ["x/a"]

    (tmp_path / "b.yaml").write_text(ONE_STEP.format(name="b", path="x/a"))
    with pytest.raises(InputError, match=r"the path 'x/a' is that of .*a\.yaml, too"):
        read_playbooks([str(tmp_path)], colour=False)

    (tmp_path / "b.yaml").write_text("workflow: [{step: a, tool: nop}]\n")
    with pytest.raises(InputError, match="nop"):
        read_playbooks([str(tmp_path)], colour=False)


def test_a_credential_may_come_from_a_file_and_no_error_repeats_it(tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    file.write_text("postgresql://me:hidden-word@db/main\n")

    found = credentials_of([f"pg=@{file}", "mq=amqp://u:p%40ss=@h/"])

    assert found == {"pg": "postgresql://me:hidden-word@db/main", "mq": "amqp://u:p%40ss=@h/"}
    assert credential_of("pg", found["pg"]).kind == "postgres"
    assert "hidden-word" not in repr(credential_of("pg", found["pg"]))
    with pytest.raises(RejectedError) as caught:
        credential_of("pg", "mysql://me:hidden-word@db")
    assert "hidden-word" not in str(caught.value)
    with pytest.raises(InputError) as refused:
        credentials_of(["hidden-word"])
    assert "hidden-word" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("amqp://u:pass@h/v", "rabbitmq", {"url"}),
        ("bearer:abcdef", "bearer", {"token"}),
        ("basic:me:secret:word", "basic", {"user", "password"}),
        ("header:X-Key: value", "header", {"name", "value"}),
    ],
)
def test_the_form_of_a_credential_says_its_kind(text: str, kind: str, fields: set[str]) -> None:
    found = credential_of("c", text)

    assert (found.kind, set(found.fields)) == (kind, fields)


def test_a_report_counts_attempts_retries_and_runs_and_keeps_the_last_result() -> None:
    report = Report("e1")
    for each in [
        *FLAKY_STEP,
        attempt("fetch~1.fetch#2"),
        event("step.completed", "fetch~1", result=1),
        event("step.started", "fetch~2"),
        event("step.completed", "fetch~2", result=2),
        event("execution.failed", error={"kind": "http", "message": "no"}),
    ]:
        report.apply(each)

    assert report.as_json() == {
        "execution_id": "e1",
        "status": "failed",
        "result": None,
        "error": {"kind": "http", "message": "no"},
        "steps": {"fetch": 2},
        "stats": {"attempts": 2, "retries": 1, "steps": {"fetch": {"runs": 2}}},
    }
