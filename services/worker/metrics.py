"""What a worker counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1800)


class WorkerMetrics:
    """Counters and gauges in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._children: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self.jobs = Counter("redrive_worker_jobs", "Attempts that ended.", ("kind", "status"), registry=registry)
        self.seconds = Histogram(
            "redrive_worker_job_seconds", "How long attempts took.", ("kind",), buckets=_SECONDS, registry=registry
        )
        self.running = Gauge("redrive_worker_running", "Attempts under way.", registry=registry)
        self.leased = Gauge("redrive_worker_leased", "Attempts under way that are held by a lease.", registry=registry)
        self.duplicates = Counter("redrive_worker_duplicates", "Deliveries of known jobs.", registry=registry)
        self.rejected = Counter("redrive_worker_rejected", "Deliveries that could not be read.", registry=registry)
        self.handed_back = Counter("redrive_worker_handed_back", "Jobs given back unfinished.", registry=registry)
        self.facts = Counter("redrive_worker_facts", "Facts published and confirmed.", registry=registry)
        self.messages = Counter("redrive_worker_messages", "Messages published and confirmed.", registry=registry)
        self.failures = Counter("redrive_worker_publish_failures", "Publications to be repeated.", registry=registry)

    def ended(self, kind: str, status: str, seconds: float) -> None:
        """Count an attempt that ended; its series are looked up once."""
        found = self._children.get((kind, status))
        if found is None:
            found = self._children[kind, status] = self.jobs.labels(kind, status), self.seconds.labels(kind)
        found[0].inc()
        found[1].observe(seconds)
