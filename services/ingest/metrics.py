"""What ingest counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)


class IngestMetrics:
    """Counters and gauges in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "redrive_ingest_requests", "Requests answered.", ("method", "route", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "redrive_ingest_request_seconds", "How long answers took.", ("route",), buckets=_SECONDS, registry=registry
        )
        self.submitted = Counter("redrive_ingest_submitted", "Executions created.", registry=registry)
        self.facts = Counter("redrive_ingest_facts", "Facts received.", ("result",), registry=registry)
        self.batch_seconds = Histogram(
            "redrive_ingest_batch_seconds", "From received to acknowledged.", buckets=_SECONDS, registry=registry
        )
        self.beats = Counter("redrive_ingest_heartbeats", "Heartbeats of workers.", registry=registry)
        self.unreadable = Counter("redrive_ingest_unreadable", "Unreadable messages.", ("queue",), registry=registry)
        self.dead = Counter("redrive_ingest_dead_letters", "Dead letters.", ("kind",), registry=registry)
        self.unrouted = Gauge("redrive_ingest_unrouted_jobs", "Jobs whose pool has no queue.", registry=registry)
        self.rerouted = Counter("redrive_ingest_rerouted_jobs", "Jobs whose pool appeared.", registry=registry)
        self.lost_wakes = Counter("redrive_ingest_lost_wakes", "Wake-ups left to the sweep.", registry=registry)
