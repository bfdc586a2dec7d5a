"""The tables of the API reference, from the OpenAPI document that ingest serves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from services.ingest.app import create_app
from services.ingest.settings import Settings
from shared.broker.memory import MemoryBroker
from shared.runtime.clock import SystemClock
from shared.store.memory.store import MemoryStore
from tests.support.reference.tables import code, table


def parts() -> dict[str, str]:
    """Return every generated part by the name that pages call it by."""
    return {"operations": _overview(), "operations in full": _operations(), "schemas": _schemas()}


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    clock = SystemClock()
    return create_app(MemoryStore(clock.now), MemoryBroker(), Settings(is_dev=True), clock).openapi()


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give method, path and description of every operation, in the order of the document."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _overview() -> str:
    rows = [
        (f"[{code(f'{method} {path}')}](#{_anchor(operation)})", _scope(operation), _sentence(operation))
        for method, path, operation in operations()
    ]
    return table(("operation", "scope", ""), rows)


def _operations() -> str:
    return "\n\n".join(_operation(method, path, operation) for method, path, operation in operations())


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"### {operation['operationId']}", f"{code(f'{method} {path}')}: {_sentence(operation)}"]
    if operation.get("parameters"):
        rows = [
            (code(item["name"]), item["in"], _type(item.get("schema", {})), item.get("description", ""))
            for item in operation["parameters"]
        ]
        lines.append(table(("parameter", "in", "type", ""), rows))
    body = operation.get("requestBody", {}).get("content", {})
    lines += [f"Body ({media}): {_type(content.get('schema', {}))}." for media, content in body.items()]
    return "\n\n".join([*lines, _answers(operation["responses"])])


def _answers(responses: dict[str, Any]) -> str:
    """Return the successes with what they hold, and the problems by number."""
    good = [f"{status} {_answer(answer)}" for status, answer in sorted(responses.items()) if status < "400"]
    bad = [status for status in sorted(responses) if status >= "400"]
    return f"Answers: {'; '.join(good)}." + (f" Problems: {', '.join(bad)}." if bad else "")


def _answer(answer: dict[str, Any]) -> str:
    types = [_type(content.get("schema", {})) for content in answer.get("content", {}).values()]
    return ", ".join(kind for kind in types if kind != "any") or answer.get("description", "").rstrip(".").lower()


def _schemas() -> str:
    shown = []
    for name, schema in sorted(document()["components"]["schemas"].items()):
        needed = set(schema.get("required", ()))
        rows = [
            (code(key), _type(part) + (", **needed**" if key in needed else ""), part.get("description", ""))
            for key, part in schema.get("properties", {}).items()
        ]
        body = table(("field", "type", ""), rows) if rows else _type(schema)
        shown.append("\n\n".join(filter(None, [f"### {name}", " ".join(schema.get("description", "").split()), body])))
    return "\n\n".join(shown)


def _anchor(operation: dict[str, Any]) -> str:
    return str(operation["operationId"]).lower()


def _sentence(operation: dict[str, Any]) -> str:
    return str(operation.get("description", "")).partition("\n\nScope:")[0].replace("\n", " ")


def _scope(operation: dict[str, Any]) -> str:
    _, _, scope = str(operation.get("description", "")).partition("Scope: ")
    return scope.rstrip(".")


def _type(schema: dict[str, Any]) -> str:
    """Return a JSON Schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(part) for part in schema[several]))
    if "enum" in schema or "const" in schema:
        return " · ".join(code(str(word)) for word in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any")
