"""The tools and sinks that every worker has, made from its settings."""

from __future__ import annotations

from dataclasses import replace

from services.worker.settings import Settings
from services.worker.sinks.port import Sink
from services.worker.tools.error import ErrorTool
from services.worker.tools.http import HttpTool
from services.worker.tools.noop import NoopTool
from services.worker.tools.port import Tool
from services.worker.tools.python import PythonTool
from services.worker.tools.python_process import Limits, PythonProcesses
from services.worker.tools.wait import WaitTool


def built_in_tools(settings: Settings) -> list[Tool]:
    """Return the tools that every worker has."""
    limits = replace(Limits(), memory=settings.python_memory)
    python = PythonTool(PythonProcesses(settings.python), limits)
    return [NoopTool(), ErrorTool(), WaitTool(), HttpTool(), python]


def built_in_sinks(settings: Settings) -> list[Sink]:
    """Return the sinks that every worker has."""
    return []
