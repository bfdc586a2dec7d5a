"""What every store promises about credentials and the audit."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.errors import RejectedError
from shared.store.port import ChangedError, Store
from shared.store.records import AuditEntry, CredentialRow, SealedCredential

pytest_plugins = ("tests.support.stores",)


def sealed(name: str = "api", body: bytes = b"\x00\xff1", key_id: str = "k1", kind: str = "bearer") -> SealedCredential:
    return SealedCredential(name, kind, body, key_id)


async def put(store: Store, *names: str, key_id: str = "k1") -> None:
    for name in names:
        await store.put_credential(sealed(name, key_id=key_id), "ada")


async def test_a_credential_comes_back_as_it_was_sealed(store: Store) -> None:
    row = await store.put_credential(sealed(), "ada")

    assert row == CredentialRow("api", "bearer", "k1", row.created_at, row.updated_at)
    assert await store.credential("api") == (row, sealed())
    assert await store.credential("other") is None


async def test_a_second_value_takes_the_place_of_the_first(store: Store) -> None:
    first = await store.put_credential(sealed(), "ada")
    second = await store.put_credential(sealed(body=b"2", kind="basic"), "bob")

    assert await store.credential("api") == (second, sealed(body=b"2", kind="basic"))
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


async def test_a_credential_that_changed_meanwhile_is_not_overwritten(store: Store) -> None:
    first = await store.put_credential(sealed(), "ada")
    second = await store.put_credential(sealed(body=b"2"), "ada", seen_at=first.updated_at)

    for attempt in (
        store.put_credential(sealed(body=b"3"), "ada", seen_at=first.updated_at),
        store.put_credential(sealed(body=b"3"), "ada", is_new=True),
        store.put_credential(sealed("other"), "ada", seen_at=first.updated_at),
        store.delete_credential("api", "ada", seen_at=first.updated_at),
    ):
        with pytest.raises(ChangedError):
            await attempt
    assert await store.credential("api") == (second, sealed(body=b"2"))
    assert await store.credential("other") is None


async def test_only_one_of_many_creates_what_is_said_to_be_new(store: Store) -> None:
    made = (store.put_credential(sealed(body=b"%d" % n), "ada", is_new=True) for n in range(5))
    found = await asyncio.gather(*made, return_exceptions=True)

    assert sum(isinstance(each, CredentialRow) for each in found) == 1
    assert sum(isinstance(each, ChangedError) for each in found) == 4


async def test_a_deleted_credential_is_gone(store: Store) -> None:
    row = await store.put_credential(sealed(), "ada")

    assert await store.delete_credential("api", "ada", seen_at=row.updated_at)
    assert not await store.delete_credential("api", "ada")
    assert await store.credential("api") is None


async def test_credentials_are_listed_by_name_page_by_page(store: Store) -> None:
    await put(store, "c", "B", "a", "_d")

    first = await store.credentials(limit=3)
    rest = await store.credentials(limit=3, cursor=first.cursor)

    assert [row.name for row in first.items] == ["B", "_d", "a"]
    assert [row.name for row in rest.items] == ["c"]
    assert rest.cursor is None


async def test_what_other_keys_sealed_is_found_in_batches(store: Store) -> None:
    await put(store, "a", "b", "c")
    await put(store, "new", key_id="k2")

    first = await store.sealed_otherwise("k2", 2)
    rest = await store.sealed_otherwise("k2", 2, after=first[-1].name)

    assert [each.name for each in (*first, *rest)] == ["a", "b", "c"]
    assert await store.sealed_otherwise("k1", 10) == [sealed("new", key_id="k2")]


async def test_sealing_anew_changes_the_key_and_no_time(store: Store) -> None:
    before = await store.put_credential(sealed(), "ada")
    anew = sealed(body=b"anew", key_id="k2")

    assert await store.reseal(sealed(), anew)

    found = await store.credential("api")
    assert found is not None
    assert found[1] == anew
    assert (found[0].key_id, found[0].updated_at) == ("k2", before.updated_at)


async def test_sealing_anew_never_undoes_a_change(store: Store) -> None:
    await store.put_credential(sealed(body=b"changed"), "ada")

    assert not await store.reseal(sealed(), sealed(body=b"anew", key_id="k2"))
    assert not await store.reseal(sealed("gone"), sealed("gone", b"anew", "k2"))

    found = await store.credential("api")
    assert found is not None
    assert found[1] == sealed(body=b"changed")


async def test_every_change_is_noted_with_who_made_it(store: Store) -> None:
    await put(store, "api", "other")
    await store.note(AuditEntry("w1", "credential.lent", "api", {"job_id": "j"}))
    await store.delete_credential("api", "bob")
    await store.delete_credential("api", "eve")

    rows = await store.noted("api")

    assert [(row.entry.actor, row.entry.action) for row in rows] == [
        ("bob", "credential.deleted"),
        ("w1", "credential.lent"),
        ("ada", "credential.set"),
    ]
    assert rows[1].entry.details == {"job_id": "j"}
    assert await store.now() - rows[0].occurred_at < timedelta(minutes=5)
    assert len(await store.noted("api", limit=1)) == 1


async def test_a_refused_change_is_not_noted(store: Store) -> None:
    await put(store, "api")
    with pytest.raises(ChangedError):
        await store.put_credential(sealed(), "eve", is_new=True)

    assert [row.entry.actor for row in await store.noted("api")] == ["ada"]


async def test_a_name_with_nul_is_refused(store: Store) -> None:
    with pytest.raises(RejectedError, match="NUL"):
        await store.put_credential(sealed("a\0b"), "ada")
