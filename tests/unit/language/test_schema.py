"""The JSON Schema of the language is valid, and agrees with the parser on what is right and what is broken."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shared.language.compile import compile_playbook
from shared.language.diagnostics import Report
from shared.language.kinds import BUILT_IN, Kind
from shared.language.nodes import plain
from shared.language.parse import parse
from shared.language.scalars import NAME, TEXT
from shared.language.schema import DIALECT, playbook_schema
from shared.language.shapes import Definitions, Field, Record
from tests.support.playbooks import EVERYTHING, INVALID, VALID


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(playbook_schema())


def data(text: str) -> Any:
    node = parse(text, Report("playbook.yaml"))
    assert node is not None
    return plain(node)


def test_the_schema_is_valid_in_its_own_dialect() -> None:  # req: A23
    schema = playbook_schema()

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Redrive playbook"


def test_the_schema_is_json_and_the_same_every_time() -> None:
    assert json.dumps(playbook_schema()) == json.dumps(playbook_schema())


@pytest.mark.parametrize("name", VALID)
def test_what_is_right_is_right_for_parser_and_schema(name: str) -> None:
    compiled = compile_playbook(VALID[name])

    assert compiled.errors == ()
    assert [error.message for error in validator().iter_errors(data(VALID[name]))] == []


@pytest.mark.parametrize("name", INVALID)
def test_what_is_broken_is_broken_for_parser_and_schema(name: str) -> None:
    assert not compile_playbook(INVALID[name]).ok
    assert not validator().is_valid(data(INVALID[name]))


def pieces() -> list[Any]:
    """Return a playbook of every step and every part of the head that a large one has."""
    whole = data(EVERYTHING)
    steps = [{"workflow": [step]} for step in whole["workflow"]]
    return steps + [{key: part, "workflow": [{"step": "a"}]} for key, part in whole.items() if key != "workflow"]


def places(node: Any) -> Iterator[tuple[str | int, ...]]:
    """Give the path of every value in some data."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in children:
        yield (key,)
        yield from ((key, *rest) for rest in places(inner))


def changed(node: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of some data with one value replaced, or added."""
    copy = json.loads(json.dumps(node))
    target = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return copy


def at(node: Any, path: tuple[str | int, ...]) -> Any:
    return at(node[path[0]], path[1:]) if path else node


STRUCTURAL = {"unknown-key", "wrong-type", "missing-key", "unknown-kind", "unknown-directive", "wrong-choice",
              "too-few", "wrong-key"}  # fmt: skip


def agree(changes: Iterator[Any]) -> int:
    """Check that parser and schema judge the structure of all these playbooks alike, and count them."""
    count = 0
    for broken in changes:
        codes = {item.code for item in compile_playbook(json.dumps(broken)).errors}
        assert validator().is_valid(broken) == codes.isdisjoint(STRUCTURAL), (broken, codes)
        count += 1
    return count


def test_an_unknown_key_anywhere_is_the_same_to_parser_and_schema() -> None:
    mappings = (
        changed(piece, (*path, "zz_unknown"), 1)
        for piece in pieces()
        for path in [(), *places(piece)]
        if isinstance(at(piece, path), dict)
    )

    assert agree(mappings) > 70


@pytest.mark.parametrize("value", [None, 5, -1, True, [], {}, "zz text"], ids=repr)
def test_a_value_of_another_type_anywhere_is_the_same_to_parser_and_schema(value: Any) -> None:
    assert agree(changed(piece, path, value) for piece in pieces() for path in places(piece)) > 200


def test_two_records_of_one_name_get_two_definitions() -> None:
    definitions = Definitions()
    one, other = Record("thing", {"a": Field(TEXT)}), Record("thing", {"b": Field(NAME)})

    references = [
        record.schema(definitions)["$ref"] for record in (one, other, one, Record("thing", {"a": Field(TEXT)}))
    ]

    assert references == ["#/$defs/thing", "#/$defs/thing_2", "#/$defs/thing", "#/$defs/thing"]
    assert definitions.parts["thing"]["properties"].keys() == {"a"}
    assert definitions.parts["thing_2"]["properties"].keys() == {"b"}


def test_every_definition_is_used_and_every_reference_leads_to_one() -> None:
    schema = playbook_schema()
    text = json.dumps(schema)
    references = {part.split('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}

    assert references == set(schema["$defs"])
    assert all(" " not in name for name in references)


def test_no_built_in_definition_had_to_be_renamed() -> None:
    assert [name for name in playbook_schema()["$defs"] if name.rpartition("_")[2].isdigit()] == []


def test_a_plug_in_is_part_of_the_schema() -> None:
    kinds = BUILT_IN.with_tools(Kind("mail", "Send a mail.", {"to": Field(TEXT, "Whom to.")}, (("to",),)))
    schema = Draft202012Validator(playbook_schema(kinds))

    assert schema.is_valid({"workflow": [{"step": "a", "tool": {"kind": "mail", "to": "me"}}]})
    assert not schema.is_valid({"workflow": [{"step": "a", "tool": {"kind": "mail"}}]})
    assert not validator().is_valid({"workflow": [{"step": "a", "tool": {"kind": "mail", "to": "me"}}]})


def test_every_field_is_described_for_editors() -> None:
    schema = playbook_schema()
    silent = [
        f"{name}.{key}"
        for name, part in schema["$defs"].items()
        for key, value in part.get("properties", {}).items()
        if "description" not in value
    ]

    assert silent == []


def test_a_mistake_in_a_task_is_reported_for_its_own_kind_only() -> None:
    broken = data("workflow: [{step: a, tool: {kind: http, url: u, colour: red}}]")

    messages = [error.message for error in validator().iter_errors(broken)]
    assert messages == ["Additional properties are not allowed ('colour' was unexpected)"]
