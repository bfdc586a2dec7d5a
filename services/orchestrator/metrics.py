"""What an orchestrator counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)


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
