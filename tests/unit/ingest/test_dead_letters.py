"""Dead letters that nobody could read: kept, shown without what they say, sent again or thrown away."""

from __future__ import annotations

from typing import Any

import pytest

from shared.broker.port import Message
from shared.broker.topology import DEAD, DUE, OUTCOMES, jobs_queue
from shared.store.records import DeadLetter
from tests.support.eventually import eventually
from tests.unit.ingest.service import NOBODY, Service

BODY = b"nobody can read this secret"


async def kept(service: Service, *messages: Message) -> list[dict[str, Any]]:
    """Have messages die, and return the dead letters when they are kept."""
    await service.broker.publish_many(messages)

    async def look() -> list[dict[str, Any]]:
        await service.clock.advance(0.01)
        async with service.client("read") as client:
            items: list[dict[str, Any]] = (await client.get("/api/v1/dead-letters")).json()["items"]
        return items if len(items) >= len(messages) else []

    return await eventually(look)


def died_in(queue: str, message_id: str = "m1", key: str = "default") -> Message:
    return Message(DEAD, key, BODY, message_id, {"x-first-death-queue": queue, "x-first-death-reason": "rejected"})


async def settled(service: Service, letter: dict[str, Any], how: str, scope: str = "run") -> Any:
    async with service.client(scope) as client:
        return await client.post(f"/api/v1/dead-letters/{letter['dead_letter_id']}:{how}")


async def test_a_dead_letter_is_kept_once_and_shown_without_what_it_says(service: Service) -> None:
    await kept(service, died_in(OUTCOMES))
    (letter,) = await kept(service, died_in(OUTCOMES))

    assert (letter["kind"], letter["queue"], letter["message_id"]) == ("unreadable", OUTCOMES, "m1")
    assert letter["size"] == len(BODY)
    assert "secret" not in str(letter)


async def test_a_redriven_dead_letter_goes_to_the_queue_it_died_in_and_is_kept_no_longer(service: Service) -> None:
    queue = jobs_queue("default")
    (letter,) = await kept(service, died_in(queue))

    answer = await settled(service, letter, "redrive")

    assert (answer.status_code, answer.json()["outcome"]) == (200, "redriven")
    (delivery,) = await service.taken(queue)
    assert (delivery.body, delivery.message_id, dict(delivery.headers)) == (BODY, "m1", {})
    assert (await settled(service, letter, "redrive")).status_code == 404
    assert [row.entry.action for row in await service.store.noted(letter["dead_letter_id"])] == ["dead_letter.redriven"]


async def test_a_dead_letter_that_had_waited_in_the_ladder_is_not_made_to_wait_again(service: Service) -> None:
    (letter,) = await kept(service, died_in("redrive.v1.delay.p1.d3", key="0.0.3.0.default"))

    assert (await settled(service, letter, "redrive")).status_code == 200

    (delivery,) = await service.taken(jobs_queue("default"))
    assert delivery.exchange == DUE


async def test_a_dead_letter_whose_queue_is_gone_or_unknown_is_not_lost_by_redriving_it(service: Service) -> None:
    gone, unknown = await kept(service, died_in("redrive.v1.jobs.gone"), Message(DEAD, "x", BODY, "m2"))

    for letter in (gone, unknown):
        answer = await settled(service, letter, "redrive")
        assert answer.status_code == 409
        assert answer.headers["content-type"] == "application/problem+json"
        assert await service.store.dead_letter(letter["dead_letter_id"]) is not None
    assert (await settled(service, gone, "discard")).json()["outcome"] == "discarded"
    assert await service.store.dead_letter(gone["dead_letter_id"]) is None


@pytest.mark.parametrize("how", ["redrive", "discard"])
async def test_only_who_may_run_settles_a_dead_letter_and_one_that_is_not_there_is_not_found(
    service: Service, how: str
) -> None:
    letter = {"dead_letter_id": NOBODY}

    assert (await settled(service, letter, how, "read")).status_code == 403
    assert (await settled(service, letter, how)).status_code == 404


async def test_dead_letters_are_listed_in_pages_the_newest_first(service: Service) -> None:
    for number in range(5):
        identity = f"00000000-0000-5000-8000-00000000000{number}"
        letter = DeadLetter(identity, f"m{number}", "unreadable", "", "", "", None, "application/json", {}, BODY)
        await service.store.keep_dead_letters([letter])
        await service.clock.advance(1)

    async with service.client("read") as client:
        first = (await client.get("/api/v1/dead-letters?limit=3")).json()
        rest = (await client.get(f"/api/v1/dead-letters?limit=3&cursor={first['cursor']}")).json()

    assert [item["message_id"] for item in first["items"] + rest["items"]] == ["m4", "m3", "m2", "m1", "m0"]
    assert rest["cursor"] is None
