"""Figures for Prometheus: a registry of this process, and the text that is scraped."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client import generate_latest as _generate


def new_registry() -> CollectorRegistry:
    """Return a registry that knows the figures of the process already."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> tuple[bytes, str]:
    """Return what `/metrics` answers, and its content type."""
    return _generate(registry), CONTENT_TYPE_LATEST
