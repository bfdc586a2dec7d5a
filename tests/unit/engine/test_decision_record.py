"""Every decision says how it came about, without saying too much."""

from __future__ import annotations

import json
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.outcomes import failure, http_failure, success
from shared.engine.redaction import MASK, shown_value
from tests.support.deciding import BUSY, Played, play

RULES = """
- step: a
  when: "{{ workload.go }}"
  tool:
    - name: t
      kind: http
      url: http://x
      eval:
        - expr: "{{ outcome.http.status == 404 }}"
          do: fail
        - expr: "{{ outcome.http.status in workload.codes and outcome.error.retryable }}"
          do: retry
          attempts: 2
          on_exhausted: { jump: other }
    - name: other
      kind: noop
      eval: [ { expr: "{{ ctx.n | default(0) < 1 }}", do: jump, to: other, set_ctx: { n: 1 } } ]
  next:
    - { step: b, when: "{{ ctx.n == 2 }}" }
    - { step: c, when: "{{ ctx.n == 1 }}" }
- { step: b }
- { step: c, when: "{{ ctx.n == 5 }}" }
"""


def recorded(played: Played) -> list[dict[str, Any]]:
    records = []
    for event in played.log:
        if decision := getattr(event.payload, "decision", None):
            records += decision["rules"]
        if isinstance(event.payload, p.NextEvaluated):
            records += event.payload.arcs
    return records


def test_every_rule_that_was_looked_at_is_recorded_with_place_text_value_and_reads() -> None:
    played = play(RULES, {"t": BUSY}, workload={"codes": [503], "go": True})
    events = [event.alias for event in played.log if getattr(event.payload, "decision", None)]

    assert events == [
        "step_retry",
        "step_retry_exhausted",
        "task_advanced",
        "task_advanced",
        "task_advanced",
        "step_skipped",
    ]
    for entry in recorded(played):
        assert set(entry) >= {"text", "value"}
        assert entry["text"] in ("always", "error") or (entry["line"] > 4 and "reads" in entry)


def test_a_retry_records_what_led_to_it() -> None:
    played = play(RULES, {"t": [BUSY, http_failure(404)]}, workload={"codes": [503], "go": True})
    (said,) = played.said(p.TaskRetryScheduled)

    assert said.decision["rules"] == [
        {"rule": "eval[0]", "text": "{{ outcome.http.status == 404 }}", "line": 12, "value": False,
         "reads": {"outcome.http.status": 503}},
        {"rule": "eval[1]", "text": "{{ outcome.http.status in workload.codes and outcome.error.retryable }}",
         "line": 14, "value": True,
         "reads": {"outcome.error.retryable": True, "outcome.http.status": 503, "workload.codes": [503]}},
    ]  # fmt: skip
    assert said.decision["matched"] == "eval[1]"
    assert said.decision["directive"] == "retry"
    assert said.decision["attempts"] == {"used": 1, "allowed": 2}
    assert said.decision["delay"]["seconds"] == 1.0


def test_a_default_records_the_status_it_read() -> None:
    played = play("- { step: a, tool: { kind: noop } }\n", {"a": success()})
    (said,) = played.said(p.TaskAdvanced)

    assert [(rule["rule"], rule["value"], rule.get("reads")) for rule in said.decision["rules"]] == [
        ("default", False, {"outcome.status": "success"}), ("default", True, None),
    ]  # fmt: skip


def test_secrets_are_masked_wherever_they_stand() -> None:
    text = """
    - step: a
      tool:
        kind: noop
        eval:
          - expr: "{{ workload.api_key == 'x' or workload.user.name == 'y'
              or workload.headers['Authorization'] or workload }}"
            do: break
    """
    secret = "s3cr3t-value"
    played = play(
        text,
        workload={"api_key": secret, "user": {"name": "z", "password": secret}, "headers": {"Authorization": secret}},
    )
    (said,) = played.said(p.TaskAdvanced)

    assert secret not in json.dumps(said.decision, ensure_ascii=False)
    assert said.decision["rules"][0]["reads"]["workload.api_key"] == MASK
    assert said.decision["rules"][0]["reads"]["workload.user.name"] == "z"


def test_sizes_are_capped() -> None:
    names = " or ".join(f"workload.{'n' * 20}{number} == 1" for number in range(30))
    text = f"- step: a\n  tool: {{ kind: noop, eval: [ {{ expr: '{{{{ {names} }}}}', do: break }} ] }}\n"
    played = play(text, workload={f"{'n' * 20}{number}": "x" * 5000 for number in range(30)})
    entry = played.said(p.TaskAdvanced)[0].decision["rules"][0]

    assert len(entry["text"]) == 500
    assert len(entry["reads"]) == 12
    assert all(len(value) == 200 for value in entry["reads"].values())


def test_a_large_value_is_shown_in_part() -> None:
    shown = shown_value(("x",), {"rows": list(range(10_000)), "token": "secret"})
    long = shown_value(("x",), ["x" * 150, "y" * 150])

    assert shown == {"rows": list(range(38)), "…": 2}
    assert isinstance(long, str)
    assert len(long) == 200
    assert shown_value(("x",), {"token": "secret", "n": 1}) == {"token": MASK, "n": 1}
    assert shown_value(("x", "token"), 5) == MASK


def test_the_last_error_is_cut_to_what_people_read() -> None:  # req: I9
    played = play("- { step: a, tool: { kind: noop }, retry: 2 }\n", {"a": failure("exception", "x" * 2000)})

    assert [len(said.last_error or "") for said in played.said(p.TaskRetryScheduled)] == [500]
    assert [len(said.last_error or "") for said in played.said(p.TaskRetryExhausted)] == [500]


def test_a_record_is_plain_json() -> None:
    played = play(RULES, {"t": BUSY}, workload={"codes": [503], "go": True})

    assert json.loads(json.dumps(recorded(played))) == recorded(played)
