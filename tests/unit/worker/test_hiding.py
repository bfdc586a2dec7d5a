"""Texts that must not be shown, in every spelling in which programs repeat them."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.worker.hiding import HIDDEN, Hiding, Veil
from shared.runtime.logs import JsonLines, hide_in_logs

SECRET = """s3cret/+"'&<%\\ ü€"""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(json.dumps({"a": SECRET})),
        repr(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").replace("%2F", "%2f"),
        html.escape(SECRET),
        html.escape(SECRET, quote=False),
        SECRET.replace("'", "''"),
        str(SECRET.encode()),
    ],
)
def test_every_spelling_of_a_secret_is_hidden(said: str) -> None:
    hidden = Hiding([SECRET])(f"before {said} after")

    assert "s3cret" not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert HIDDEN in hidden


@given(st.text(st.characters(codec="utf-8"), min_size=8, max_size=60), st.text("abc:", max_size=5), st.text("xyz"))
def test_a_secret_is_hidden_wherever_it_stands_in_base64(secret: str, before: str, after: str) -> None:
    hidden = Hiding([secret])
    said = encoded(f"{before}{secret}{after}")

    assert HIDDEN in hidden(said)
    assert encoded(secret) not in hidden(encoded(secret))


@given(st.text(st.characters(codec="utf-8"), min_size=4, max_size=60))
def test_any_secret_is_hidden_in_json_urls_and_html(secret: str) -> None:
    hide = Hiding([secret])

    for said in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret), html.escape(secret)):
        assert hide(f"<{said}>").strip("<>").replace(HIDDEN, "") == ""


@pytest.mark.parametrize("size", [8, 20, 31])
def test_a_secret_that_was_cut_is_hidden_too(size: int) -> None:
    secret = "abcdefghijklmnopqrstuvwxyz012345"
    hide = Hiding([secret])

    assert hide(f"the key is {secret[:size]}") == f"the key is {HIDDEN}"
    assert hide(f"{secret[-size:]} is the key") == f"{HIDDEN} is the key"
    assert hide(f"… {secret[-size:]} is the key") == f"{HIDDEN} is the key"


def test_a_text_without_the_secret_stays_as_it_is() -> None:
    text = "abcdefgh and ijklmnop, an innocent text"

    assert Hiding(["abcdefghijklmnop"])(text) == text
    assert Hiding(["abc"])("abc") == "abc"
    assert Hiding([])(text) == text


def test_parts_of_a_secret_are_secret_by_themselves() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----\n"
    account = json.dumps({"client": {"private": "a-private-piece"}, "ok": "no"})
    hide = Hiding([key, account])

    assert "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" not in hide("line 2: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC is bad")
    assert "a-private-piece" not in hide("bad a-private-piece")
    assert hide("ok no short") == "ok no short"


def test_the_longest_of_several_secrets_goes_first() -> None:
    assert Hiding(["s3cret", "s3cret-and-more"])("s3cret-and-more") == HIDDEN


def test_a_text_that_looks_like_a_secret_for_a_long_time_is_no_trap() -> None:
    hide = Hiding(["\\" * 30 + "x", "a/" * 200])
    began = time.process_time()
    hide("\\" * 20_000 + "a/" * 20_000)

    # Not a measurement: what would backtrack without end takes hours.
    assert time.process_time() - began < 60


def test_log_lines_hide_what_was_lent_in_messages_fields_and_tracebacks() -> None:
    veil, stream = Veil(), io.StringIO()
    veil.add([SECRET])
    hide_in_logs(veil)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines("worker"))
    logger = logging.Logger("some.library")
    logger.addHandler(handler)
    try:
        raise ValueError("x" * 3990 + SECRET)
    except ValueError:
        logger.exception("failed with %s", SECRET, extra={"url": quote(SECRET)})
    finally:
        hide_in_logs(str)

    assert "s3cret" not in stream.getvalue()
    assert json.loads(stream.getvalue())["event"] == f"failed with {HIDDEN}"


def test_a_veil_remembers_so_many_texts_and_the_latest_longest() -> None:
    veil = Veil(limit=2)
    veil.add(["first-secret", "second-secret"])
    veil.add(["first-secret"])
    veil.add(["third-secret"])

    assert veil("first-secret third-secret") == f"{HIDDEN} {HIDDEN}"
    assert veil("second-secret") == "second-secret"
