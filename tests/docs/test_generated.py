"""What is generated says what the code says now."""

import re
from pathlib import Path

import pytest
import yaml

from services.cli.__main__ import COMMANDS
from shared.language.kinds import BUILT_IN
from tests.support.reference import api, language, messages, settings
from tests.support.reference.pages import MARKED, current_pages
from tests.support.repository import ROOT, shown

REFERENCE = ROOT / "docs" / "reference"
CURRENT = current_pages()


def marks(page: str) -> list[str]:
    """Return the names of the generated parts of a reference page."""
    return [mark["name"] for mark in MARKED.finditer((REFERENCE / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", CURRENT, ids=shown)
def test_a_generated_part_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == CURRENT[path], "run `make docs`"


def test_the_language_page_has_every_record_every_tool_and_every_sink() -> None:
    records = {f"keys: {name}" for name in language.records() if name not in language.SAID_IN_WORDS}
    tools = {f"keys: tool {name}" for name in BUILT_IN.tools} | {f"keys: sink {name}" for name in BUILT_IN.sinks}

    assert (records | tools | {"keys: task", "keys: spec", "keys: policy"}) - set(marks("language.md")) == set()
    assert set(language.records()) | {"else rule"} >= language.SAID_IN_WORDS


def test_every_setting_of_the_code_is_on_its_page_with_a_meaning() -> None:
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    listed = {name.removesuffix("_FILE") for name in settings.NAME.findall(page)}

    assert settings.names_in_code() - settings.MEANINGS.keys() == set(), "say what it is for in MEANINGS"
    assert listed == settings.names_in_code()


def test_defaults_of_settings_are_those_of_the_code() -> None:
    found = settings.settings()

    assert {(read.service, read.default) for read in found["REDRIVE_BATCH"]} == {
        ("ingest", "`500`"),
        ("orchestrator", "`200`"),
    }
    assert [read.default for read in found["REDRIVE_DUCKDB_MEMORY"]] == ["512 MiB"]
    assert [read.default for read in found["REDRIVE_LEASE_AFTER"]] == ["300 s"]
    assert {read.default for read in found["REDRIVE_AMQP_URL"]} == {"**needed**"}


def test_every_operation_is_on_the_page_of_the_api() -> None:
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^### (\w+)$", page, re.M))

    assert {operation["operationId"] for _, _, operation in api.operations()} <= headings
    assert set(api.document()["components"]["schemas"]) <= headings


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^### redrive (\w+)$", page, re.M)) == set(COMMANDS)
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.M)} >= {0, 1, 2, 3, 4, 5, 6, 7, 8}


def test_the_asyncapi_document_refers_only_to_what_it_holds() -> None:
    document = yaml.safe_load(messages.asyncapi())

    def holds(reference: str) -> bool:
        inner = document
        for key in reference.removeprefix("#/").split("/"):
            inner = inner.get(key, {})
        return bool(inner)

    references = set(re.findall(r"\$ref: '?(#[^'\n]+)'?", messages.asyncapi()))
    assert len(references) > 10
    assert [reference for reference in references if not holds(reference)] == []


def test_messages_that_are_sent_are_as_the_asyncapi_document_says() -> None:
    import json

    import jsonschema

    from shared.contracts.messages import encode_facts, encode_job, encode_wake
    from tests.unit.contracts.examples import EXECUTION, JOBS, events

    document = yaml.safe_load(messages.asyncapi())
    facts = [event for event in events() if event.is_fact]
    sent = {
        "facts": encode_facts(facts),
        "wake": encode_wake([EXECUTION]),
        "job": [encode_job(job) for job in JOBS],
    }
    for name, bodies in sent.items():
        schema = {**document, "$ref": f"#/components/schemas/{name}"}
        assert bodies
        for body in bodies:
            jsonschema.validate(json.loads(body), schema)
