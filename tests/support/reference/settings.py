"""The table of settings: who reads each and its default from the code, what it is for from here."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.support.reference.tables import code, table
from tests.support.repository import ROOT, modules

SERVICES = ("ingest", "orchestrator", "worker")
READERS = frozenset({"text", "required", "words", "whole", "seconds", "flag", "_size", "_hosts"})
NAME = re.compile(r"REDRIVE_[A-Z]+(?:_[A-Z]+)*")
# Set by tests alone, or the form in which any setting can be given.
NOT_SETTINGS = frozenset({"REDRIVE_CRASH_AT"})
# Defaults that differ from machine to machine; the meaning says what they are.
OWN_TO_THE_MACHINE = frozenset({"REDRIVE_WORKER_NAME", "REDRIVE_PYTHON"})
MEANINGS = {
    "REDRIVE_DATABASE_URL": "Postgres: `postgresql://user:password@host:5432/name`",
    "REDRIVE_AMQP_URL": "RabbitMQ: `amqp://user:password@host:5672/vhost`",
    "REDRIVE_API_KEYS": "who may call: `name:scope+scope:secret`, separated by commas or lines; scopes are `read`, "
    "`run`, `admin` and `worker`",
    "REDRIVE_CREDENTIAL_KEYS": "keys that seal stored credentials, the first one in use; "
    "see [credentials](../guide/credentials.md)",
    "REDRIVE_DEV": "dev mode: defaults for what is otherwise required, and no keys asked for on the loopback",
    "REDRIVE_DATA_DIR": "in dev mode: where the key of credentials is kept",
    "REDRIVE_HOST": "the address the API listens on; the loopback in dev mode",
    "REDRIVE_PORT": "the port of the API",
    "REDRIVE_NAME": "the name of this process in logs and events",
    "REDRIVE_POOLS": "pools of workers, separated by commas: those a worker serves; for ingest and the orchestrator "
    "those that are there from the start",
    "REDRIVE_BODY_LIMIT": "the largest body of a request, in bytes",
    "REDRIVE_RESULT_LIMIT": "the largest stored result, in bytes",
    "REDRIVE_BATCH": "how many messages are taken at once",
    "REDRIVE_LANES": "how many batches are under way at once",
    "REDRIVE_STOP_WITHIN": "how long it finishes what it holds when it is asked to stop",
    "REDRIVE_LOG_LEVEL": "`DEBUG`, `INFO`, `WARNING` or `ERROR`",
    "REDRIVE_SWEEP_EVERY": "how often the sweep looks for what was lost",
    "REDRIVE_SWEEP_GRACE": "how long something may take before the sweep looks for proof that it was lost",
    "REDRIVE_WORKER_SILENT": "how long a worker may be silent before it counts as lost",
    "REDRIVE_HEALTH_HOST": "the address of `/healthz`, `/readyz` and `/metrics`",
    "REDRIVE_HEALTH_PORT": "their port; 0 is any",
    "REDRIVE_PLAYBOOK_ENV": "names of environment variables that playbooks may read as `env.NAME`",
    "REDRIVE_INGEST_URL": "where ingest is",
    "REDRIVE_WORKER_TOKEN": "the worker's key, with the scope `worker`",
    "REDRIVE_WORKER_NAME": "the worker's name in events and lists; host and process unless given",
    "REDRIVE_CONCURRENCY": "how many jobs run at once",
    "REDRIVE_DEFAULT_TIMEOUT": "the timeout of tasks that name none; 0 is none",
    "REDRIVE_GRACE": "how long jobs may finish when the worker is asked to stop; then they are handed back",
    "REDRIVE_LEASE_AFTER": "after how long a job is held by a lease instead of by the broker",
    "REDRIVE_LEASE": "how long a lease lasts without a heartbeat",
    "REDRIVE_HEARTBEAT": "how often a worker says that it lives",
    "REDRIVE_PYTHON": "the interpreter of the [python](../tools/python.md) tool; the worker's own unless given",
    "REDRIVE_PYTHON_MEMORY": "the most memory of a process of the python tool",
    "REDRIVE_SHELL_MEMORY": "the most memory of a process of the [shell](../tools/shell.md) tool",
    "REDRIVE_SCRIPTS_ROOT": "the folder of scripts that playbooks name; none unless given",
    "REDRIVE_FILES_ROOT": "the folder beyond which no file is read or written by duckdb and the file sink",
    "REDRIVE_DUCKDB_MEMORY": "the most memory of the [duckdb](../tools/duckdb.md) tool and sink",
    "REDRIVE_DUCKDB_EXTENSIONS": "a folder with extensions of DuckDB; none is ever fetched",
    "REDRIVE_POSTGRES_MAX_ROWS": "the most rows of one [postgres](../tools/postgres.md) task",
    "REDRIVE_POSTGRES_MAX_RESULT": "the most bytes of one postgres task",
    "REDRIVE_CODE_UID": "the first of the users that code runs as if the worker is root; `off` for none",
    "REDRIVE_DISABLED_TOOLS": "tools that are turned off, separated by commas",
    "REDRIVE_REMEMBER_CREDENTIALS": "how long a worker remembers a credential it was lent",
    "REDRIVE_HTTP_DENY": "hosts and networks that the [http](../tools/http.md) tool does not call, besides its list",
    "REDRIVE_HTTP_ALLOW": "those that it calls although they are denied",
    "REDRIVE_TOOL_AMQP_URL": "the broker of the [rabbitmq](../tools/rabbitmq.md) tool where a task names no credential",
    "REDRIVE_SERVER": "the server that commands talk to, where `--server` is not given",
    "REDRIVE_API_KEY": "the key for it, where `--key` is not given",
    "REDRIVE_CACHE_DIR": "where the embedded system caches what takes long to make; `~/.cache/redrive` unless given",
}


@dataclass(frozen=True)
class Read:
    """A setting as one service reads it."""

    service: str
    default: str


def parts() -> dict[str, str]:
    """Return every generated part by the name that pages call it by."""
    reads = settings()
    return {
        **{f"settings: {service}": _of_service(service, reads) for service in SERVICES},
        "settings: commands": table(
            ("variable", "meaning"), [(code(name), text) for name, text in MEANINGS.items() if name not in reads]
        ),
    }


def names_in_code() -> set[str]:
    """Return every setting that the code names; `X_FILE` stands for `X`."""
    found: set[str] = set()
    for path in modules("services", "shared"):
        found |= set(NAME.findall(path.read_text(encoding="utf-8")))
    return {name.removesuffix("_FILE") for name in found} - NOT_SETTINGS


def settings() -> dict[str, list[Read]]:
    """Return who reads which setting and with which default."""
    found: dict[str, list[Read]] = {}
    for service in SERVICES:
        for name, default in _read_by(service):
            reads = found.setdefault(name, [])
            if all(read.service != service for read in reads):
                reads.append(Read(service, default))
    return found


def _of_service(service: str, reads: dict[str, list[Read]]) -> str:
    rows = [
        (code(name), read.default, MEANINGS.get(name, ""))
        for name, found in reads.items()
        for read in found
        if read.service == service
    ]
    if service != "orchestrator":
        rows.append((code("REDRIVE_DEV"), "off", MEANINGS["REDRIVE_DEV"]))
    return table(("variable", "unless given", "meaning"), rows)


def _read_by(service: str) -> list[tuple[str, str]]:
    """Return the settings that a service's module reads, in their order, each with its default in words."""
    module = importlib.import_module(f"services.{service}.settings")
    tree = ast.parse((ROOT / "services" / service / "settings.py").read_text(encoding="utf-8"))
    found: list[tuple[int, str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called := _called(node)) in READERS:
            arguments = node.args[1:] if called.startswith("_") else node.args
            name = _value(arguments[0], module) if arguments else None
            if isinstance(name, str) and NAME.fullmatch(name):
                default = "" if name in OWN_TO_THE_MACHINE else _default(called, arguments[1:], module)
                found.append((node.lineno, name, default))
    return [(name, default) for _, name, default in sorted(found, key=lambda item: item[0])]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _default(called: str, rest: list[ast.expr], module: ModuleType) -> str:
    if called == "required":
        return "**needed**"
    value: Any = _value(rest[0], module) if rest else None
    if called == "seconds":
        return f"{value:g} s"
    if called == "_size" or (isinstance(value, int) and value >= 2**20):
        return _size(int(value))
    return code(str(value)) if value not in (None, "") else ""


def _value(node: ast.expr, module: ModuleType) -> Any:
    """Return what an expression of a module is; nothing if that depends on where it runs."""
    try:
        return eval(compile(ast.Expression(node), "<default>", "eval"), vars(module))
    except NameError:
        return None


def _size(number: int) -> str:
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number % bytes_ == 0:
            return f"{number // bytes_} {unit}"
    return f"{number} bytes"
