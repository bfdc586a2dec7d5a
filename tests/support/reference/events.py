"""The tables of the event reference, from the catalogue of payloads."""

from __future__ import annotations

import dataclasses
from typing import Any

from shared.contracts.payloads import CATALOGUE, Payload
from tests.support.reference.tables import code, table


def parts() -> dict[str, str]:
    """Return every generated part by the name that pages call it by."""
    return {"events": _catalogue(), "payloads": "\n\n".join(_payload(cls) for cls in CATALOGUE.values())}


def _catalogue() -> str:
    rows = [
        (f"[{code(name)}](#{name.replace('.', '')})", code(cls.alias), cls.source, _sentence(cls))
        for name, cls in CATALOGUE.items()
    ]
    return table(("type", "older name", "from", "says"), rows)


def _payload(cls: type[Payload]) -> str:
    rows = [
        (code(item.name), code(type_text(item.type)), _default(item))
        for item in dataclasses.fields(cls)  # type: ignore[arg-type]
    ]
    return f"### {cls.type}\n\n{_sentence(cls)}\n\n{table(('field', 'type', 'unless given'), rows)}"


def _sentence(cls: type[Payload]) -> str:
    return " ".join((cls.__doc__ or "").split())


def type_text(hint: Any) -> str:
    """Return a type as the page shows it."""
    text = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    return text.replace("Json", "any").replace("dict[str, Any]", "object").replace("None", "null")


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default_factory is not dataclasses.MISSING:
        return "empty"
    if item.default is dataclasses.MISSING:
        return "**needed**"
    return "empty" if item.default == () else code({"None": "null"}.get(str(item.default), str(item.default)))
