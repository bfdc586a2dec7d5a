"""Frames written by ourselves are the very bytes that the driver's own encoder writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp import frame as frames
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from shared.broker import rabbit_wire as wire
from shared.broker.port import Message

FRAME_SIZE = 7
NAMES = st.text(st.characters(codec="utf-8"), max_size=60)
MESSAGES = st.builds(
    Message,
    exchange=st.sampled_from(["", "redrive.v1.jobs", "redrive.v1.delay.p3"]),
    routing_key=st.sampled_from(["default", "3.0.12.1.gpu", "", "wäke"]),
    body=st.binary(max_size=40),
    message_id=NAMES,
    headers=st.dictionaries(st.sampled_from(["traceparent", "x"]), NAMES, max_size=2),
    content_type=st.sampled_from(["application/json", "text/plain"]),
)


def encoded_by_the_driver(channel: int, message: Message) -> bytes:
    said = commands.Basic.Publish(exchange=message.exchange, routing_key=message.routing_key, mandatory=True)
    properties = commands.Basic.Properties(
        content_type=message.content_type,
        headers=dict(message.headers) or None,
        delivery_mode=2,
        message_id=message.message_id,
    )
    header = ContentHeader(body_size=len(message.body), properties=properties)
    pieces = [message.body[at : at + FRAME_SIZE] for at in range(0, len(message.body), FRAME_SIZE)]
    everything: list[Any] = [said, header, *(ContentBody(piece) for piece in pieces)]
    return b"".join(frames.marshal(each, channel) for each in everything)


@given(messages=st.lists(MESSAGES.filter(lambda each: each.message_id), max_size=5), channel=st.integers(1, 65_535))
def test_a_block_is_what_the_driver_would_write_message_by_message(messages: list[Message], channel: int) -> None:
    expected = b"".join(encoded_by_the_driver(channel, message) for message in messages)

    assert wire.publish_block(channel, messages, FRAME_SIZE) == expected


@given(tag=st.integers(1, 2**63 - 1), flag=st.booleans())
def test_settling_is_what_the_driver_would_write(tag: int, flag: bool) -> None:
    assert wire.ack(3, tag, multiple=flag) == frames.marshal(commands.Basic.Ack(tag, flag), 3)
    assert wire.reject(3, tag, requeue=flag) == frames.marshal(commands.Basic.Reject(tag, flag), 3)


def test_a_name_that_amqp_cannot_carry_is_refused_before_anything_is_written() -> None:
    with pytest.raises(ValueError, match="a routing key of 256 bytes"):
        wire.publish_block(1, [Message("ex", "k" * 256, b"", "id")], FRAME_SIZE)
