"""What a job is given, made whole before a tool sees it."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from services.worker.inputs import InputError, Inputs
from services.worker.inputs import resolve as resolve_borrowing
from services.worker.keychain import Borrowed, Credential, Keychain, NoKeychain
from services.worker.values import MemoryValues
from shared.contracts.jobs import Job
from shared.engine.world import canonical_json
from tests.unit.worker.given import a_job

PAGES = {"rows": [{"id": 1}, {"id": 2}], "paging": {"next": None}}
ANSWER = {"status_code": 200, "headers": {}, "body": {"rows": [7], "url": "inner"}, "data": {"rows": [7]}, "url": "u"}


class OneCredential(Keychain):
    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return Credential(name, "bearer", {"token": "s3cret"}) if name == "api" else None


async def resolve(job: Job, values: MemoryValues, keychain: Keychain) -> Inputs:
    return await resolve_borrowing(job, values, Borrowed(keychain, job))


async def stored(values: MemoryValues, value: Any) -> dict[str, Any]:
    return await values.store(canonical_json(value))


def deferred(text: str, **scope: Any) -> dict[str, Any]:
    return {"$template": text, "$scope": scope}


def error_of(problem: InputError) -> dict[str, Any]:
    assert problem.outcome.error is not None
    return problem.outcome.error


async def test_inputs_without_references_are_given_as_they_are() -> None:
    config = {"url": "x", "deep": [{"_ref": "no reference of ours", "$template": 3}]}
    found = await resolve(a_job(config=config, input={"a": 1}), MemoryValues(), NoKeychain())

    assert found.config is config
    assert found.input == {"a": 1}


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        (PAGES, [], PAGES),
        (PAGES, ["rows", 1, "id"], 2),
        (PAGES, ["rows", -1, "id"], 2),
        (ANSWER, ["rows", 0], 7),
        (ANSWER, ["url"], "u"),
        (ANSWER, ["data", "rows"], [7]),
        ([1, 2], ["data"], [1, 2]),
        ({"body": {"rows": []}}, ["body", "rows"], []),
    ],
)
async def test_a_reference_is_loaded_and_its_path_followed(value: Any, path: list[Any], expected: Any) -> None:
    values = MemoryValues()
    reference = await stored(values, value)
    found = await resolve(a_job(input={"x": [{**reference, "_path": path}]}), values, NoKeychain())

    assert found.input == {"x": [expected]}
    assert found.notes == ()


@pytest.mark.parametrize("path", [["nothing"], ["rows", 9], ["rows", "id"], ["paging", "data"]])
async def test_a_path_into_nothing_is_null_with_a_note(path: list[Any]) -> None:
    values = MemoryValues()
    reference = await stored(values, PAGES)
    found = await resolve(a_job(input={"x": {**reference, "_path": path}}), values, NoKeychain())

    assert found.input == {"x": None}
    assert "undefined in the stored value" in found.notes[0]


async def test_values_that_refer_to_others_are_whole_too() -> None:
    values = MemoryValues()
    inner = await stored(values, {"big": 1})
    outer = await stored(values, [inner, {"_ref": "sha256:" + "0" * 64}])
    found = await resolve(a_job(input={"all": outer}), values, NoKeychain())

    assert found.input == {"all": [{"big": 1}, {"_ref": "sha256:" + "0" * 64}]}


async def test_a_path_goes_on_through_a_reference_and_loads_nothing_else() -> None:
    values = MemoryValues()
    inner = await stored(values, {"rows": [1, 2, 3]})
    gone = {"_ref": "sha256:" + "0" * 64}
    outer = await stored(values, [gone, {**inner, "_path": ["rows"]}])
    found = await resolve(a_job(input={"x": {**outer, "_path": [1, 2]}}), values, NoKeychain())

    assert found.input == {"x": 3}


async def test_the_results_of_a_loop_are_a_reference_too() -> None:
    values = MemoryValues()
    values.texts["loop:e1:fetch~1"] = "[1, 2]"
    found = await resolve(a_job(input={"x": {"_ref": "loop:e1:fetch~1"}}), values, NoKeychain())

    assert found.input == {"x": [1, 2]}


async def test_a_value_that_is_gone_is_an_outcome() -> None:
    with pytest.raises(InputError) as caught:
        await resolve(a_job(input={"x": {"_ref": "sha256:" + "0" * 64}}), MemoryValues(), NoKeychain())

    assert error_of(caught.value)["kind"] == "expression"


async def test_more_than_fits_into_memory_is_not_loaded() -> None:
    with pytest.raises(InputError) as caught:
        await resolve(a_job(input={"_ref": "sha256:" + "0" * 64, "_size": 10**12}), MemoryValues(), NoKeychain())

    assert error_of(caught.value)["kind"] == "limit"


async def test_an_expression_is_finished_with_the_keychain_and_its_scope() -> None:
    values = MemoryValues()
    reference = await stored(values, {"id": 5})
    config = {
        "headers": {"Authorization": deferred("Bearer {{ keychain.api.token }}")},
        "body": deferred("{{ [keychain.api.token | length, page, who.id] }}", page=3, who=reference),
    }
    borrowed = Borrowed(OneCredential(), a_job(config=config))
    found = await resolve_borrowing(a_job(config=config), values, borrowed)

    assert found.config == {"headers": {"Authorization": "Bearer s3cret"}, "body": [6, 3, 5]}
    assert borrowed.secrets == ("s3cret",)


@pytest.mark.parametrize("text", ["{{ keychain.other.token }}", "{{ keychain.api.nothing }}", "x{{ keychain.other }}"])
async def test_a_credential_that_is_unknown_is_an_outcome_and_not_an_empty_text(text: str) -> None:
    with pytest.raises(InputError) as caught:
        await resolve(a_job(config={"x": deferred(text)}), MemoryValues(), OneCredential())

    assert error_of(caught.value)["kind"] == "auth"


async def test_an_expression_that_fails_is_an_outcome() -> None:
    with pytest.raises(InputError) as caught:
        await resolve(a_job(config={"x": deferred("{{ 1 / a }}", a=0)}), MemoryValues(), NoKeychain())

    assert error_of(caught.value)["kind"] == "expression"
    assert "division" in error_of(caught.value)["message"]


async def test_time_and_chance_of_an_expression_are_those_of_the_job() -> None:
    job = a_job(config={"x": deferred("{{ rand() }}"), "t": deferred("{{ now() }}")})
    first = await resolve(job, MemoryValues(), NoKeychain())
    second = await resolve(job, MemoryValues(), NoKeychain())

    assert first.config == second.config
    assert str(first.config["t"]).startswith("2024-01-01")


async def test_an_expression_in_loaded_data_is_data() -> None:
    values = MemoryValues()
    hostile = {"x": deferred("{{ keychain.api.token }}")}
    reference = await stored(values, hostile)
    found = await resolve(a_job(config=reference), values, OneCredential())

    assert found.config == hostile
