"""No job is larger than a message may be, whatever its playbook and its data; and its tool is still given all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.contracts.messages import MAX_MESSAGE_BYTES, encode_job
from shared.contracts.outcomes import success
from tests.support.deciding import Played, body, play
from tests.support.worker_inputs import sink_config, tool_inputs

WIDE = "\N{GRINNING FACE}"
SIZES = (1_000, 30_000, 90_000, 97_000, 300_000)
TEXTS = [pytest.param(letter * size, id=f"{size}-{len(letter.encode())}") for letter in 'x"' + WIDE for size in SIZES]


def all_fit(played: Played) -> bool:
    sizes = [len(encode_job(job)) for job in played.jobs]
    return bool(sizes) and max(sizes) <= MAX_MESSAGE_BYTES


def inputs_of(played: Played, task: str, at: int = 0) -> Any:
    return tool_inputs(played.asked(task)[at], played.rehearsal.values)


@pytest.mark.parametrize("text", TEXTS)
def test_a_job_with_everything_large_at_once_fits(text: str) -> None:
    quoted = json.dumps(text, ensure_ascii=False)
    played = play(
        f"""
        - step: a
          tool: noop
          next: [ {{ step: b, args: {{ carried: "{{{{ workload.big }}}}" }} }} ]
        - step: b
          args: {{ more: "{{{{ workload.big }}}}" }}
          tool:
            kind: http
            url: "http://x"
            body: [{quoted}, "{{{{ workload.big }}}}", "{{{{ keychain.api.token ~ workload.big }}}}"]
            input: {{ own: {quoted}, secret: "{{{{ keychain.api.token ~ more }}}}" }}
            params: {{ q: "{{{{ secret }}}}" }}
          sink: {{ tool: postgres, table: t, data: [{quoted}, "{{{{ [workload.big, result] }}}}"] }}
        """,
        workload={"big": text},
    )
    found = inputs_of(played, "b")

    assert all_fit(played)
    assert found.config["body"] == [text, text, "s3cret" + text]
    assert found.config["params"] == {"q": "s3cret" + text}
    assert found.input == {"carried": text, "more": text, "own": text, "secret": "s3cret" + text}
    assert sink_config(played.asked("b")[0], played.rehearsal.values, {"result": 1})["data"] == [text, [text, 1]]


@pytest.mark.parametrize("letter", ["x", WIDE])
@pytest.mark.parametrize("size", [24_000, 32_000, 90_000, 98_000])
def test_parts_that_are_just_small_enough_fit_together(letter: str, size: int) -> None:
    played = play(
        """
        - step: a
          tool: { kind: http, url: "http://x", body: "{{ workload.big }}", input: { own: "{{ workload.big }}" } }
          sink: { tool: postgres, table: t, data: "{{ workload.big }}" }
        """,
        workload={"big": letter * size},
    )
    found = inputs_of(played, "a")

    assert all_fit(played)
    assert found.config["body"] == found.input["own"] == letter * size


@pytest.mark.parametrize("text", TEXTS)
def test_jobs_of_loops_over_large_elements_fit(text: str) -> None:
    played = play(
        """
        - step: a
          loop: { in: "{{ workload.all }}", iterator: item }
          tool: { kind: http, url: "http://x", body: ["{{ item }}", "{{ item.t }}"], input: { i: "{{ iter }}" } }
        """,
        workload={"all": [{"t": text}, {"t": text + "."}]},
    )

    assert all_fit(played)
    assert [inputs_of(played, "a", at).config["body"] for at in (0, 1)] == [
        [{"t": text}, text],
        [{"t": text + "."}, text + "."],
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_jobs_with_a_large_next_call_fit(text: str) -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            body: { kept: 1 }
            retry:
              on_success:
                while: "{{ response.more }}"
                max_attempts: 3
                next_call: { body: { cursor: "{{ response.cursor }}" }, params: { c: "{{ response.cursor }}" } }
        """,
        {"a": [body({"more": True, "cursor": text}), body({"more": False})]},
    )

    assert all_fit(played)
    assert inputs_of(played, "a", 1).config["body"] == {"kept": 1, "cursor": text}


def test_a_job_with_thousands_of_small_references_fits() -> None:
    stored = {"_ref": "sha256:big", "_size": 10**6, "_preview": "p" * 512}
    played = play(
        """
        - step: a
          loop: { in: 1000, mode: parallel }
          tool: { kind: http, url: "http://x" }
          next: b
        - step: b
          tool: { kind: http, url: "http://x", body: "{{ a }}", input: { all: "{{ a.results }}" } }
        """,
        {"a": success(stored)},
        values={"sha256:big": [1]},
    )

    assert all_fit(played)
    assert inputs_of(played, "b").config["body"] == [[1]] * 1000


REFUSED = {
    "pool": ("- { step: a, tool: { kind: noop, pool: '{{ workload.big }}' } }", "pool: a name of 400000 characters"),
    "output.select": ("- { step: a, tool: { kind: noop, output: { select: [LONG] } } }", "output.select takes more"),
    "places": ("- { step: a, tool: { kind: http, url: u, body: [SECRETS] } }", "2000 expressions that need the worker"),
    "input": ("- { step: a, next: [ { step: b, args: { _ref: 'sha256:0', x: '{{ workload.part }}',"
              " y: '{{ workload.part }}' } } ] }\n- { step: b, tool: noop }",
              "the input of the task looks like a stored value"),
    "expression": ("- { step: a, tool: { kind: http, url: '{{ LONG }}' } }", "is undefined"),
    "error": ("- { step: a, tool: { kind: http, url: '{{ (1 / 0) ~ LONG }}' } }", "division by zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sent_is_an_error_that_names_the_field(name: str) -> None:
    text, message = REFUSED[name]
    secrets = ", ".join(["'{{ keychain.api.token }}'"] * 2000)
    played = play(
        text.replace("LONG", "l" * 200_000).replace("SECRETS", secrets),
        workload={"big": "x" * 400_000, "part": "x" * 60_000},
    )

    assert all_fit(played)
    assert played.error["kind"] == "expression"
    assert message in played.error["message"]


def test_a_default_pool_that_cannot_be_one_is_said_in_the_default_pool() -> None:
    head = "apiVersion: redrive.io/v1\nmetadata: {name: t}\nexecutor: {spec: {pool: '{{ workload.big }}'}}\n"
    played = play(head + "workflow: [{step: a, tool: noop}]", workload={"big": "p" * 300_000})

    assert all_fit(played)
    assert played.jobs[0].pool == "default"
    assert "pool: a name of 300000 characters" in played.error["message"]
