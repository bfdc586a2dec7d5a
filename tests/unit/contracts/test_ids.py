"""Identities follow from what they are about, and addresses can be read back."""

from uuid import UUID, uuid5

import pytest

from shared.contracts.ids import (
    NAMESPACE,
    Address,
    child_execution_id,
    decision_event_id,
    derived,
    fact_id,
    job_id,
    parse_node,
)

ADDRESSES = {
    "fetch~1": Address("fetch"),
    "fetch_all~2": Address("fetch_all", 2),
    "fetch_all~2[17]": Address("fetch_all", 2, 17),
    "fetch_all~2[17].fetch#3": Address("fetch_all", 2, 17, "fetch", 1, 3),
    "fetch_all~2[0].fetch@4#1": Address("fetch_all", 2, 0, "fetch", 4, 1),
    "a~1.store-all@12#30": Address("a", 1, None, "store-all", 12, 30),
}


@pytest.mark.parametrize(("parts"), [("job", "e1", "a~1.a#1"), ("x",), ("", "ü", 3), (None, True, 1.5)])
def test_a_derived_id_is_the_version_5_uuid_of_its_parts(parts: tuple[object, ...]) -> None:
    assert derived(*parts) == str(uuid5(NAMESPACE, "\x1f".join(str(part) for part in parts)))
    assert UUID(derived(*parts)).version == 5


def test_parts_cannot_be_confused_with_one_another() -> None:
    assert derived("ab", "c") != derived("a", "bc")


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_one_text_and_comes_back_from_it(text: str) -> None:
    assert ADDRESSES[text].node == text
    assert parse_node(text) == ADDRESSES[text]


@pytest.mark.parametrize("text", ["", "fetch", "fetch~", "fetch~1[", "fetch~1.x", "fetch~1#2", "~1", "a~1\n", "a b~1"])
def test_a_text_that_is_no_address_names_nothing(text: str) -> None:
    assert parse_node(text) is None


def test_the_attempts_of_one_call_share_a_sequence_and_pages_have_their_own() -> None:
    first, second = Address("a", 1, 2, "t", 1, 1), Address("a", 1, 2, "t", 1, 2)

    assert first.sequence == second.sequence == "a~1[2].t"
    assert Address("a", 1, 2, "t", 3, 1).sequence == "a~1[2].t@3"


def test_every_attempt_of_every_page_of_every_execution_has_its_own_job() -> None:
    addresses = [
        Address("a", visit, iteration, "t", page, attempt)
        for visit in (1, 2)
        for iteration in (None, 0, 1)
        for page in (1, 2)
        for attempt in (1, 2)
    ]
    found = {job_id(execution, address) for execution in ("e1", "e2") for address in addresses}

    assert len(found) == 2 * len(addresses)


def test_the_ids_of_facts_children_and_decisions_are_kept_apart() -> None:
    job = job_id("e1", Address("a", 1, None, "a", 1, 1))
    found = [
        job,
        fact_id(job, "started"),
        fact_id(job, "processed"),
        child_execution_id(job),
        decision_event_id(job, 1),
    ]

    assert len(set(found)) == 5
    assert fact_id(job, "processed") == fact_id(job, "processed")
