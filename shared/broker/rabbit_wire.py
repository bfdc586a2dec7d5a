"""Frames of AMQP 0-9-1 as bytes: a batch of messages as one block, and acknowledgements, without an object for each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from pamqp import encode
from typing_extensions import Buffer

from shared.broker.port import Message

PERSISTENT = 2
LONGEST_NAME = 255

_END = b"\xce"
_METHOD, _HEADER, _BODY = 1, 2, 3
_BASIC = 60
_PUBLISH, _ACK, _REJECT = 40, 80, 90
_MANDATORY = 1
_FRAME = struct.Struct(">BHI")
_CONTENT = struct.Struct(">HHQH")
_SETTLE = struct.Struct(">BHIHHQBB")
_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _MESSAGE_ID = 1 << 15, 1 << 13, 1 << 12, 1 << 7


def publish_block(channel: int, messages: Iterable[Message], frame_size: int) -> bytes:
    """Return everything that publishes these messages on a channel: persistent and mandatory, bodies cut to frames.

    Raises ValueError for a name that AMQP cannot carry.
    """
    out: list[Buffer] = []
    for message in messages:
        properties = _properties(message)
        out += (
            _publish(channel, message.exchange, message.routing_key),
            _FRAME.pack(_HEADER, channel, len(properties)),
            properties,
            _END,
        )
        body = message.body
        if len(body) <= frame_size:
            if body:
                out += (_FRAME.pack(_BODY, channel, len(body)), body, _END)
            continue
        for start in range(0, len(body), frame_size):
            piece = body[start : start + frame_size]
            out += (_FRAME.pack(_BODY, channel, len(piece)), piece, _END)
    return b"".join(out)


def ack(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Return the frame that gives up a delivery, or every one up to it."""
    return _SETTLE.pack(_METHOD, channel, 13, _BASIC, _ACK, tag, multiple, 0xCE)


def reject(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Return the frame that puts a delivery back, or away."""
    return _SETTLE.pack(_METHOD, channel, 13, _BASIC, _REJECT, tag, requeue, 0xCE)


@lru_cache(maxsize=4096)
def _publish(channel: int, exchange: str, routing_key: str) -> bytes:
    payload = b"".join(
        (
            struct.pack(">HHH", _BASIC, _PUBLISH, 0),
            _short(exchange, "an exchange"),
            _short(routing_key, "a routing key"),
            bytes((_MANDATORY,)),
        )
    )
    return _FRAME.pack(_METHOD, channel, len(payload)) + payload + _END


def _properties(message: Message) -> bytes:
    flags = _CONTENT_TYPE | _DELIVERY_MODE | _MESSAGE_ID
    parts = [_short(message.content_type, "a content type"), bytes((PERSISTENT,)), _short(message.message_id, "an id")]
    if message.headers:
        flags |= _HEADERS
        parts.insert(1, encode.field_table(dict(message.headers)))
    return b"".join((_CONTENT.pack(_BASIC, 0, len(message.body), flags), *parts))


def _short(text: str, what: str) -> bytes:
    data = text.encode()
    if len(data) > LONGEST_NAME:
        raise ValueError(f"{what} of {len(data)} bytes is longer than {LONGEST_NAME}")
    return bytes((len(data),)) + data
