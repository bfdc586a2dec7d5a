"""What decisions are counted as."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from services.orchestrator.metrics import MOST_RULES, OTHER_RULES, OrchestratorMetrics
from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.engine.turn import Decision


def a_retry(rule: str, delay_s: float = 2.0) -> Event:
    return Event(
        "e1",
        p.TaskRetryScheduled("j", 1, 2, 3, delay_s, {}, "2026-01-01T00:00:00Z", decision={"matched": rule}),
    )


def counted(*events: Event) -> CollectorRegistry:
    registry = CollectorRegistry()
    OrchestratorMetrics(registry).decided([Decision(events=events)])
    return registry


def test_retries_are_counted_by_the_rule_that_asked_for_them() -> None:
    found = counted(a_retry("eval[0]"), a_retry("eval[0]"), a_retry("retry.on_error"))

    assert found.get_sample_value("redrive_retries_total", {"rule": "eval[0]", "type": "on_error"}) == 2
    assert found.get_sample_value("redrive_retries_total", {"rule": "retry.on_error", "type": "on_error"}) == 1


def test_delays_are_counted_by_their_length() -> None:
    found = counted(a_retry("eval[0]", 0.2), a_retry("eval[0]", 40.0))

    assert found.get_sample_value("redrive_retry_delay_seconds_bucket", {"type": "on_error", "le": "0.5"}) == 1
    assert found.get_sample_value("redrive_retry_delay_seconds_sum", {"type": "on_error"}) == 40.2


def test_executions_are_counted_by_how_they_ended_and_the_other_ends_are_zero() -> None:
    found = counted(Event("e1", p.ExecutionCompleted()), Event("e2", p.ExecutionCompleted()))

    assert found.get_sample_value("redrive_executions_ended_total", {"status": "completed"}) == 2
    assert found.get_sample_value("redrive_executions_ended_total", {"status": "failed"}) == 0
    assert found.get_sample_value("redrive_executions_ended_total", {"status": "cancelled"}) == 0


def test_a_retry_that_was_not_granted_is_counted() -> None:
    found = counted(Event("e1", p.TaskRetryExhausted(3, 3, "attempts", "fail")))

    assert found.get_sample_value("redrive_retries_exhausted_total") == 1


def test_playbooks_with_endless_rules_make_no_endless_series() -> None:
    found = counted(*(a_retry(f"eval[{number}]") for number in range(MOST_RULES + 50)))

    others = found.get_sample_value("redrive_retries_total", {"rule": OTHER_RULES, "type": "on_error"})
    series = [s for m in found.collect() if m.name == "redrive_retries" for s in m.samples if s.name.endswith("_total")]
    assert others == 50
    assert len(series) == MOST_RULES + 1
