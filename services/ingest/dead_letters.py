"""Messages that died and that nobody could make anything of: kept, so that people can look and send them again."""

from __future__ import annotations

import hashlib

from shared.broker.port import Delivery, Message
from shared.broker.topology import DUE, PREFIX, UNROUTED
from shared.contracts.ids import derived
from shared.store.records import DeadLetter

MAX_TEXT = 500
MAX_HEADERS = 32

_DELAYING = f"{PREFIX}.delay."


def letter_of(delivery: Delivery, kind: str, reason: str) -> DeadLetter:
    """Return what is kept of a dead message; the same message that is delivered again has the same identity."""
    digest = hashlib.sha256(delivery.body).hexdigest()
    queue = _clean(delivery.headers.get("x-first-death-queue") or "")
    headers = sorted(delivery.headers.items())[:MAX_HEADERS]
    return DeadLetter(
        dead_letter_id=derived("dead letter", _clean(delivery.message_id or ""), queue, digest),
        message_id=_clean(delivery.message_id or ""),
        kind=kind,
        reason=_clean(reason),
        exchange=_clean(delivery.headers.get("x-first-death-exchange") or delivery.exchange),
        routing_key=_clean(delivery.routing_key),
        queue=queue or None,
        content_type="application/json",
        headers={_clean(name): _clean(str(value)) for name, value in headers},
        body=delivery.body,
    )


def sent_again(letter: DeadLetter) -> Message | None:
    """Return the message that is sent again to where this one died, without its old headers; none, if unknown."""
    queue = letter.queue
    if queue is None or queue == UNROUTED:
        return None
    if queue.startswith(_DELAYING):
        # It had waited its time when it died; the key still leads to its pool.
        return Message(DUE, letter.routing_key, letter.body, letter.message_id)
    return Message("", queue, letter.body, letter.message_id)


def _clean(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_TEXT]
