"""What an orchestrator counts."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from shared.contracts import payloads as p
from shared.engine.turn import Decision

# Rules are named by their places in playbooks, so there are few names; whoever writes thousands gets one for the rest.
MOST_RULES = 100
OTHER_RULES = "other"

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
_DELAYS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 86400)
_ENDS: dict[type[p.Payload], str] = {
    p.ExecutionCompleted: "completed",
    p.ExecutionFailed: "failed",
    p.ExecutionCancelled: "cancelled",
}
_COUNTED: frozenset[type[p.Payload]] = frozenset({*_ENDS, p.TaskRetryScheduled, p.TaskRetryExhausted})


class OrchestratorMetrics:
    """Counters in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.batches = Counter("redrive_orchestrator_batches", "Batches committed.", registry=registry)
        self.decisions = Counter("redrive_orchestrator_decisions", "Decisions committed.", registry=registry)
        self.seconds = Histogram(
            "redrive_orchestrator_batch_seconds", "How long batches took.", buckets=_SECONDS, registry=registry
        )
        self.put_back = Counter("redrive_orchestrator_put_back", "Deliveries put back.", registry=registry)
        self.undecidable = Counter(
            "redrive_orchestrator_undecidable", "Executions that broke the decider.", registry=registry
        )
        self.unreadable = Counter("redrive_orchestrator_unreadable", "Messages nobody can read.", registry=registry)
        self.recovered = Counter("redrive_sweep_recovered", "What the sweep recovered.", ("kind",), registry=registry)
        self._rules: set[str] = set()
        self.ended = Counter("redrive_executions_ended", "Executions that ended.", ("status",), registry=registry)
        self.retries = Counter(
            "redrive_retries",
            "Further attempts, pages and polls that rules asked for.",
            ("rule", "type"),
            registry=registry,
        )
        self.exhausted = Counter(
            "redrive_retries_exhausted",
            "Tasks whose rule wanted a further attempt and had none left.",
            registry=registry,
        )
        self.delays = Histogram(
            "redrive_retry_delay_seconds",
            "How long retries were put off.",
            ("type",),
            buckets=_DELAYS,
            registry=registry,
        )
        for status in _ENDS.values():
            self.ended.labels(status)

    def decided(self, decisions: Iterable[Decision]) -> None:
        """Count what decisions brought about that were committed just now."""
        for decision in decisions:
            for event in decision.events:
                # Of thousands of events few are counted, so each costs one look and no more.
                if type(event.payload) in _COUNTED:
                    self._count(event.payload)

    def _count(self, payload: p.Payload) -> None:
        match payload:
            case p.TaskRetryScheduled(retry_type=kind, delay_s=delay_s, decision=record):
                self.retries.labels(self._rule(record.get("matched")), kind).inc()
                self.delays.labels(kind).observe(delay_s)
            case p.TaskRetryExhausted():
                self.exhausted.inc()
            case _:
                self.ended.labels(_ENDS[type(payload)]).inc()

    def _rule(self, label: object) -> str:
        """Return the label of a rule, or the one for all that came when there were too many."""
        name = str(label or "unnamed")
        if name not in self._rules:
            if len(self._rules) >= MOST_RULES:
                return OTHER_RULES
            self._rules.add(name)
        return name
