"""The tools and sinks that every worker has, made from its settings."""

from __future__ import annotations

from services.worker.late import Late
from services.worker.settings import Settings
from services.worker.sinks.file_places import Places
from services.worker.sinks.http import HttpSink
from services.worker.sinks.port import Sink
from services.worker.sinks.postgres import PostgresSink
from services.worker.tools.artifact import ArtifactTool
from services.worker.tools.duckdb import DuckdbLimits, DuckdbTool
from services.worker.tools.error import ErrorTool
from services.worker.tools.http import HttpTool
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import Guard, guard_of
from services.worker.tools.noop import NoopTool
from services.worker.tools.port import Tool
from services.worker.tools.postgres import PostgresTool
from services.worker.tools.postgres_running import Reading
from services.worker.tools.process import Limits, Processes
from services.worker.tools.python import PythonTool
from services.worker.tools.python_scripts import Scripts
from services.worker.tools.shell import ShellTool
from services.worker.tools.wait import WaitTool
from services.worker.values import Values


def built_in_tools(settings: Settings, values: Values) -> list[Tool | Late[Tool]]:
    """Return the tools that every worker has."""
    processes = Processes(settings.python, at_a_time=settings.concurrency, first_uid=settings.first_uid)
    http = HttpTool(Exchange(_guard(settings)))
    code, commands = Limits(memory=settings.python_memory), Limits(memory=settings.shell_memory)
    python = PythonTool(processes, code, Scripts(settings.scripts_root, http.run))
    shell, artifact = ShellTool(processes, commands), ArtifactTool(values)
    postgres = PostgresTool(Reading(max_rows=settings.postgres_max_rows, max_bytes=settings.postgres_max_result))
    rabbitmq = Late("rabbitmq", lambda: _rabbitmq_tool(settings))
    return [NoopTool(), ErrorTool(), WaitTool(), http, rabbitmq, python, shell, artifact, _duckdb(settings), postgres]


def built_in_sinks(settings: Settings) -> list[Sink | Late[Sink]]:
    """Return the sinks that every worker has."""
    return [
        HttpSink(Exchange(_guard(settings))),
        PostgresSink(),
        Late("rabbitmq", lambda: _rabbitmq_sink(settings)),
        Late("duckdb", lambda: _duckdb_sink(settings)),
        Late("file", lambda: _file_sink(settings)),
    ]


def _rabbitmq_tool(settings: Settings) -> Tool:
    from services.worker.tools.rabbitmq import RabbitmqTool

    return RabbitmqTool(default_url=settings.tool_amqp_url)


def _rabbitmq_sink(settings: Settings) -> Sink:
    from services.worker.sinks.rabbitmq import RabbitmqSink

    return RabbitmqSink(default_url=settings.tool_amqp_url)


def _duckdb_sink(settings: Settings) -> Sink:
    from services.worker.sinks.duckdb import DuckdbSink

    return DuckdbSink(Places(settings.files_root))


def _file_sink(settings: Settings) -> Sink:
    from services.worker.sinks.file import FileSink

    return FileSink(Places(settings.files_root))


def _duckdb(settings: Settings) -> DuckdbTool:
    return DuckdbTool(
        Places(settings.files_root),
        DuckdbLimits(memory=settings.duckdb_memory),
        extensions=settings.duckdb_extensions,
        at_a_time=settings.concurrency,
    )


def _guard(settings: Settings) -> Guard:
    return guard_of(settings.http_deny, settings.http_allow)
