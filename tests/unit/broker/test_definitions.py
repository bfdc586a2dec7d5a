"""Definitions for RabbitMQ: hashes instead of passwords, and clear words when there is none."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from shared.broker.definitions import filled, password_hash
from shared.errors import RejectedError

TEMPLATE = json.dumps(
    {
        "users": [
            {"name": "a", "password_from": "PASSWORD_A", "tags": []},
            {"name": "b", "password_from": "PASSWORD_B", "optional": True, "tags": []},
        ],
        "permissions": [{"user": "a", "configure": ".*"}, {"user": "b", "configure": "^$"}],
    }
)
GOOD = "sixteen-characters"


def made(passwords: dict[str, str], template: str = TEMPLATE) -> str:
    return filled(template, lambda name: passwords.get(name, ""), lambda size: b"\x01\x02\x03\x04"[:size])


def test_a_password_becomes_a_salted_hash_and_is_nowhere_else() -> None:
    text = made({"PASSWORD_A": GOOD, "PASSWORD_B": GOOD})

    first, _ = json.loads(text)["users"]
    assert (
        base64.b64decode(first["password_hash"]) == b"\1\2\3\4" + hashlib.sha256(b"\1\2\3\4" + GOOD.encode()).digest()
    )
    assert first["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert GOOD not in text
    assert "password_from" not in text


def test_another_salt_makes_another_hash() -> None:
    assert password_hash(GOOD, b"aaaa") != password_hash(GOOD, b"bbbb")


def test_an_optional_user_without_a_password_is_left_out_with_its_rights() -> None:
    found = json.loads(made({"PASSWORD_A": GOOD}))

    assert [user["name"] for user in found["users"]] == ["a"]
    assert [each["user"] for each in found["permissions"]] == ["a"]
    assert "optional" not in found["users"][0]


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("", r"PASSWORD_A \(or PASSWORD_A_FILE\) is not set"),
        ("tiny", "PASSWORD_A is shorter than 16 characters"),
        ("has/a/slash/and/is/long", "PASSWORD_A has other characters"),
    ],
)
def test_a_password_that_cannot_be_used_is_said_by_its_name_alone(password: str, said: str) -> None:
    with pytest.raises(RejectedError, match=said) as problem:
        made({"PASSWORD_A": password, "PASSWORD_B": GOOD})

    assert not password or password not in str(problem.value)


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(RejectedError, match=r"PASSWORD_A .*; PASSWORD_B "):
        made({"PASSWORD_B": "tiny"})


@pytest.mark.parametrize(
    "template",
    [
        "no json",
        "[]",
        "{}",
        '{"users": [{"name": "a"}], "permissions": []}',
        '{"users": [], "permissions": [{"user": "stranger"}]}',
    ],
)
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(RejectedError, match="the template is no JSON object"):
        made({}, template)
