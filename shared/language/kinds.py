"""The tool kinds and sink kinds that a playbook may name, each with the shape of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from shared.language.predicates import is_list, is_mapping, is_scalar
from shared.language.scalars import ANY, BOOLEAN, CODE, DURATION, EXPRESSION, NAME, SINGLE, SIZE, STATUS, TEXT
from shared.language.shapes import (
    Case,
    Choice,
    Either,
    Field,
    ListOf,
    MapOf,
    Record,
    known_keys,
)


@dataclass(frozen=True)
class Kind:
    """One kind of tool or sink: its fields, which of them it cannot do without, and which exclude one another.

    What is `literal` is kept as written, whatever looks like an expression in it: a field, or a key as `field.key`.
    """

    name: str
    doc: str
    fields: Mapping[str, Field]
    one_of: tuple[tuple[str, ...], ...] = ()
    literal: frozenset[str] = field(default_factory=frozenset)
    exclusive: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def known(self) -> Mapping[str, tuple[str, Field]]:
        """Every key of the configuration with the name it stands for."""
        return known_keys(self.fields)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Everything a playbook may name as `kind`, built in or brought by plug-ins."""

    tools: Mapping[str, Kind]
    sinks: Mapping[str, Kind]

    def with_tools(self, *more: Kind) -> Kinds:
        """Return these kinds and some more."""
        return Kinds(MappingProxyType({**self.tools, **{kind.name: kind for kind in more}}), self.sinks)


TIMEOUT = Either(
    "a duration, or a mapping with connect, read, total",
    (
        Case(
            is_mapping,
            Record(
                "timeout",
                {
                    "connect": Field(DURATION, "Until the connection stands."),
                    "read": Field(DURATION, "Between two pieces of the answer."),
                    "total": Field(DURATION, "For the whole call."),
                },
            ),
        ),
        Case(is_scalar, DURATION),
    ),
    "timeouts",
)
AUTH = Either(
    "the name of a credential, or a mapping with type and credential",
    (
        Case(
            is_mapping,
            Record(
                "auth",
                {
                    "type": Field(TEXT, "What kind of credential it is."),
                    "credential": Field(TEXT, "Its name.", aliases=("name",)),
                },
                one_of=(("credential",),),
            ),
        ),
        Case(is_scalar, TEXT),
    ),
    "credential",
)
TEXTS = Either("a text or a list of texts", (Case(is_list, ListOf(TEXT)), Case(is_scalar, TEXT)))
PARAMS = Either(
    "a list, a mapping or an expression",
    (Case(is_list, ListOf(ANY)), Case(is_mapping, MapOf(ANY)), Case(is_scalar, EXPRESSION)),
)
MAPPING = Either("a mapping or an expression", (Case(is_mapping, MapOf(ANY)), Case(is_scalar, EXPRESSION)))
STATEMENTS = Either("a text or a list of texts", (Case(is_list, ListOf(TEXT, at_least=1)), Case(is_scalar, TEXT)))
STATUSES = Either(
    "a status, a class such as '2xx', or a list of them",
    (Case(is_list, ListOf(STATUS, "a list of statuses", at_least=1)), Case(is_scalar, STATUS)),
)
AUTH_FIELD = Field(AUTH, "The stored credential to use.", aliases=("credential", "connection"))

HTTP = Kind(
    "http",
    "Call an HTTP endpoint.",
    {
        "method": Field(TEXT, "GET unless said otherwise."),
        "url": Field(TEXT, "The address.", aliases=("endpoint",)),
        "headers": Field(MAPPING, "Request headers."),
        "params": Field(MAPPING, "Query parameters."),
        "body": Field(ANY, "Request body: data is sent as JSON, a text as it is."),
        "json": Field(ANY, "Request body, sent as JSON."),
        "data": Field(ANY, "Request body, sent as it is, or form fields."),
        "form": Field(MAPPING, "Form fields."),
        "files": Field(MAPPING, "Parts of a multipart upload."),
        "auth": AUTH_FIELD,
        "follow_redirects": Field(BOOLEAN, "Whether to follow redirects."),
        "expect": Field(STATUSES, "Statuses that are a success; 2xx unless said otherwise."),
        "max_body": Field(SIZE, "The largest answer that is read."),
        "idempotency_key": Field(TEXT, "Sent as Idempotency-Key instead of the attempt's own key."),
    },
    one_of=(("url",),),
    exclusive=(("body", "json", "data", "form"),),
)
SQL_FIELDS: dict[str, Field] = {
    "command": Field(TEXT, "One statement, or several.", aliases=("query", "sql")),
    "commands": Field(STATEMENTS, "Statements run in order: a list, or one text."),
    "params": Field(PARAMS, "Parameters of the statement."),
}
POSTGRES = Kind(
    "postgres",
    "Run SQL on a Postgres database.",
    {
        "auth": AUTH_FIELD,
        "dsn": Field(TEXT, "Connection address; a stored credential is better."),
        **SQL_FIELDS,
        "fetch": Field(Choice(("rows", "one", "value", "none"), what="fetch"), "What becomes the result."),
    },
    one_of=(("command", "commands"),),
    exclusive=(("command", "commands"), ("auth", "dsn")),
)
PYTHON = Kind(
    "python",
    "Run Python code in a limited subprocess.",
    {
        "code": Field(CODE, "A `main(...)` function, or a script that sets `result`."),
        "script": Field(
            Record(
                "script",
                {
                    "uri": Field(TEXT, "Where the script is."),
                    "file": Field(TEXT, "A file beside the playbook."),
                    "inline": Field(CODE, "The script itself."),
                },
                one_of=(("uri", "file", "inline"),),
            ),
            "The code, kept elsewhere.",
        ),
        "libs": Field(
            Either("a mapping or a list of modules", (Case(is_list, ListOf(TEXT)), Case(is_mapping, MapOf(TEXT)))),
            "Modules imported before the code runs.",
        ),
        "memory": Field(SIZE, "The most memory the code may use."),
    },
    one_of=(("code", "script"),),
    exclusive=(("code", "script"),),
    literal=frozenset({"code", "script.inline", "libs"}),
)
DUCKDB = Kind(
    "duckdb",
    "Run SQL on DuckDB, in memory or on a file.",
    {
        "database": Field(TEXT, "A file; in memory unless given."),
        "auth": AUTH_FIELD,
        **SQL_FIELDS,
        "attach": Field(
            ListOf(
                Record(
                    "attach",
                    {
                        "path": Field(TEXT, "What is attached.", aliases=("database",)),
                        "as": Field(NAME, "Under which name.", aliases=("alias",)),
                        "type": Field(TEXT, "For example postgres or sqlite."),
                        "auth": AUTH_FIELD,
                        "read_only": Field(BOOLEAN, "Whether it can be written to."),
                    },
                    one_of=(("path", "auth"),),
                )
            ),
            "Databases attached first.",
        ),
    },
    one_of=(("command", "commands"),),
    exclusive=(("command", "commands"),),
)
SHELL = Kind(
    "shell",
    "Run a command.",
    {
        "cmd": Field(TEXT, "A command line for the shell.", aliases=("command",)),
        "cmds": Field(TEXTS, "Command lines run in order; the first failure ends them."),
        "argv": Field(ListOf(ANY, at_least=1), "A program and its arguments, without a shell."),
        "env": Field(MAPPING, "Environment variables."),
        "cwd": Field(TEXT, "Working directory."),
        "stdin": Field(TEXT, "What the command reads."),
    },
    one_of=(("cmd", "cmds", "argv"),),
    exclusive=(("cmd", "cmds", "argv"),),
)
PLAYBOOK = Kind(
    "playbook",
    "Run another playbook as a child execution.",
    {
        "path": Field(TEXT, "The child's `metadata.path`."),
        "version": Field(SINGLE, "Its version; the newest unless given."),
        "return_step": Field(TEXT, "The step whose result is the outcome's result."),
    },
    one_of=(("path",),),
)
NOOP = Kind("noop", "Do nothing, successfully.", {})
WAIT = Kind(
    "wait",
    "Wait for a time or for a signal.",
    {
        "for": Field(DURATION, "How long."),
        "until": Field(TEXT, "Until when: an RFC 3339 time."),
        "signal": Field(TEXT, "Until this signal is sent."),
    },
    one_of=(("for", "until", "signal"),),
    exclusive=(("for", "until", "signal"),),
)
RABBITMQ = Kind(
    "rabbitmq",
    "Publish a message.",
    {
        "exchange": Field(TEXT, "The exchange; the default one unless given."),
        "routing_key": Field(TEXT, "The routing key."),
        "body": Field(ANY, "The message."),
        "headers": Field(MAPPING, "Message headers."),
        "auth": AUTH_FIELD,
    },
    one_of=(("routing_key", "exchange"),),
)
WORKBOOK = Kind(
    "workbook",
    "Call a task of the workbook.",
    {"task": Field(NAME, "The name of the workbook's task.")},
    literal=frozenset({"task"}),
)
ARTIFACT = Kind(
    "artifact",
    "Load a stored result.",
    {
        "action": Field(Choice(("get",), what="action"), "What to do."),
        "result_ref": Field(ANY, "The reference of the stored result."),
    },
)

ROWS_FIELDS: dict[str, Field] = {
    "mode": Field(Choice(("append", "upsert", "replace"), what="mode"), "append unless said otherwise."),
    "key": Field(TEXTS, "The columns that identify a row, for upsert."),
    "data": Field(ANY, "What is stored; the result unless said otherwise."),
}
TABLE = Field(TEXT, "The table.")

SINKS = (
    Kind(
        "postgres",
        "Store rows in a Postgres table.",
        {"auth": AUTH_FIELD, "dsn": Field(TEXT, "Connection address."), "table": TABLE, **ROWS_FIELDS},
        (("table",),),
        exclusive=(("auth", "dsn"),),
    ),
    Kind(
        "duckdb",
        "Store rows in a DuckDB table.",
        {"database": Field(TEXT, "The file."), "table": TABLE, "auth": AUTH_FIELD, **ROWS_FIELDS},
        (("table",),),
    ),
    Kind(
        "file",
        "Append rows to a file.",
        {
            "path": Field(TEXT, "The file."),
            "format": Field(Choice(("jsonl", "csv", "parquet"), what="format"), "By the file's name unless given."),
            **ROWS_FIELDS,
        },
        (("path",),),
    ),
    Kind("http", "Send the result to an HTTP endpoint.", {**HTTP.fields, **ROWS_FIELDS}, (("url",),)),
    Kind("rabbitmq", "Publish the result.", {**RABBITMQ.fields, **ROWS_FIELDS}, (("routing_key", "exchange"),)),
)

TOOLS = (HTTP, POSTGRES, PYTHON, DUCKDB, SHELL, PLAYBOOK, NOOP, WAIT, RABBITMQ, WORKBOOK, ARTIFACT)
BUILT_IN = Kinds(
    MappingProxyType({kind.name: kind for kind in TOOLS}),
    MappingProxyType({kind.name: kind for kind in SINKS}),
)
