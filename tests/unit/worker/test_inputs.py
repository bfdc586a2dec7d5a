"""What a job is given, made whole before a tool sees it."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from services.worker.inputs import InputError, Inputs, resolve_sink
from services.worker.inputs import resolve as resolve_borrowing
from services.worker.keychain import Borrowed, Credential, Keychain, NoKeychain
from services.worker.values import MemoryValues
from shared.contracts.jobs import Job, job_from_json, job_to_json
from shared.engine.world import canonical_json
from tests.unit.worker.given import a_job

PAGES = {"rows": [{"id": 1}, {"id": 2}], "paging": {"next": None}}
ANSWER = {"status_code": 200, "headers": {}, "body": {"rows": [7], "url": "inner"}, "data": {"rows": [7]}, "url": "u"}


AT_X = ("config", "x")


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
    config = {"url": "x", "deep": [{"_ref": "no reference of ours", "$template": 3}], "like": deferred("{{ 1 }}")}
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
    job = a_job(config=config, deferred=(("config", "headers", "Authorization"), ("config", "body")))
    borrowed = Borrowed(OneCredential(), job)
    found = await resolve_borrowing(job, values, borrowed)

    assert found.config == {"headers": {"Authorization": "Bearer s3cret"}, "body": [6, 3, 5]}
    assert borrowed.secrets == ("s3cret",)


@pytest.mark.parametrize("text", ["{{ keychain.other.token }}", "{{ keychain.api.nothing }}", "x{{ keychain.other }}",
                                  "{{ keychain[name] }}", "{{ keychain }}"])  # fmt: skip
async def test_a_credential_that_is_unknown_is_an_outcome_and_not_an_empty_text(text: str) -> None:
    with pytest.raises(InputError) as caught:
        await resolve(a_job(config={"x": deferred(text)}, deferred=(AT_X,)), MemoryValues(), OneCredential())

    assert error_of(caught.value)["kind"] == "auth"


async def test_an_expression_that_fails_is_an_outcome() -> None:
    job = a_job(config={"x": deferred("{{ 1 / a }}", a=0)}, deferred=(AT_X,))
    with pytest.raises(InputError) as caught:
        await resolve(job, MemoryValues(), NoKeychain())

    assert error_of(caught.value)["kind"] == "expression"
    assert "division" in error_of(caught.value)["message"]


async def test_time_and_chance_of_an_expression_are_those_of_the_job() -> None:
    config = {"x": deferred("{{ rand() }}"), "t": deferred("{{ now() }}")}
    job = a_job(config=config, deferred=(AT_X, ("config", "t")))
    first = await resolve(job, MemoryValues(), NoKeychain())
    second = await resolve(job, MemoryValues(), NoKeychain())

    assert first.config == second.config
    assert str(first.config["t"]).startswith("2024-01-01")


async def test_what_looks_like_an_expression_is_data_unless_the_job_says_that_it_is_one() -> None:
    values = MemoryValues()
    hostile = {"x": deferred("{{ keychain.api.token }}")}
    reference = await stored(values, hostile)
    job = a_job(config={"a": hostile, "b": [reference]}, input=reference)
    found = await resolve(job, values, OneCredential())

    assert found.config == {"a": hostile, "b": [hostile]}
    assert found.input == hostile


async def test_a_job_without_places_has_no_expressions() -> None:
    hostile = deferred("{{ keychain.api.token }}")
    sent = job_to_json(a_job(config={"x": hostile}, deferred=(AT_X,)))
    old = job_from_json({key: value for key, value in sent.items() if key != "deferred"})
    found = await resolve(old, MemoryValues(), OneCredential())

    assert found.config == {"x": hostile}


async def test_what_an_expression_makes_of_hostile_data_is_data() -> None:
    hostile = deferred("{{ keychain.api.token }}")
    config = {"x": deferred("{{ [keychain.api.token, body] }}", body=hostile)}
    found = await resolve(a_job(config=config, deferred=(AT_X,)), MemoryValues(), OneCredential())

    assert found.config == {"x": ["s3cret", hostile]}


async def test_an_expression_reads_another_that_stands_in_its_scope() -> None:
    inner = deferred("{{ keychain.api.token }}")
    config = {"x": [deferred("Bearer {{ token }}{{ args.n }}", token=inner, args={"n": 1})]}
    job = a_job(config=config, deferred=(("config", "x", 0), ("config", "x", 0, "$scope", "token")))
    found = await resolve(job, MemoryValues(), OneCredential())

    assert found.config == {"x": ["Bearer s3cret1"]}


async def test_chance_in_an_argument_is_the_same_wherever_the_argument_is_read() -> None:
    nonce = deferred("{{ rand() }}")
    job = a_job(
        config={"x": deferred("{{ nonce }}", nonce=nonce)},
        input={"nonce": nonce},
        deferred=(("input", "nonce"), AT_X, (*AT_X, "$scope", "nonce")),
    )
    found = await resolve(job, MemoryValues(), NoKeychain())

    assert found.config["x"] == found.input["nonce"]


async def test_expressions_of_a_configuration_that_is_stored_are_found_in_it() -> None:
    values = MemoryValues()
    big = await stored(values, {"id": 5})
    config = {"x": deferred("{{ keychain.api.token }}{{ who.id }}", who=big), "y": deferred("{{ keychain.api.token }}")}
    reference = await stored(values, config)
    before = dict(values.texts)
    found = await resolve(a_job(config=reference, deferred=(AT_X,)), values, OneCredential())

    assert found.config == {"x": "s3cret5", "y": config["y"]}
    assert values.texts == before


async def test_nothing_that_was_loaded_is_changed_so_that_no_secret_stays_in_a_cache() -> None:
    class Remembering(MemoryValues):
        @override
        async def load(self, ref: str) -> Any:
            return config

    config = {"deep": [{"x": deferred("{{ keychain.api.token }}")}]}
    job = a_job(config={"_ref": "sha256:" + "0" * 64}, deferred=(("config", "deep", 0, "x"),))
    found = await resolve(job, Remembering(), OneCredential())

    assert found.config == {"deep": [{"x": "s3cret"}]}
    assert config == {"deep": [{"x": deferred("{{ keychain.api.token }}")}]}


@pytest.mark.parametrize("place", [("config", "y"), ("config", "x", "$scope"), ("config", "z", 1), ("config", "z", 0)])
async def test_a_place_without_an_expression_is_an_outcome(place: tuple[str | int, ...]) -> None:
    config = {"x": deferred("{{ 1 }}"), "z": [{"$template": "{{ 1 }}", "$scope": {}, "more": 1}]}
    with pytest.raises(InputError) as caught:
        await resolve(a_job(config=config, deferred=(place,)), MemoryValues(), OneCredential())

    assert "the job cannot be read" in error_of(caught.value)["message"]


async def test_a_sink_is_finished_with_the_names_of_the_result_where_the_job_says_so() -> None:
    values = MemoryValues()
    hostile = deferred("{{ keychain.api.token }}")
    config = {"data": deferred("{{ result.rows }}"), "mode": hostile, "key": [deferred("{{ keychain.api.token }}")]}
    sink = {"kind": "postgres", "config": await stored(values, config)}
    job = a_job(sink=sink, deferred=(("sink", "config", "data"), ("sink", "config", "key", 0), AT_X))
    result = {"rows": [hostile]}
    found, notes = await resolve_sink(job, values, Borrowed(OneCredential(), job), {"result": result})

    assert found == {"data": [hostile], "mode": hostile, "key": ["s3cret"]}
    assert notes == ()
