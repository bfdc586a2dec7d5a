"""The kinds of credentials: which fields they have, and which texts of them must not be shown."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts.credentials import BadCredentialError, checked_fields, kind_of, secret_texts

OAUTH2 = {"token_url": "https://id/token", "client_id": "me", "client_secret": "s3cret"}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("bearer", {"token": "s3cret"}, {"token": "s3cret"}),
        ("basic", {"username": "ada", "password": "s3cret"}, {"user": "ada", "password": "s3cret"}),
        ("basic_credential", {"user": "ada", "password": "s3cret"}, {"user": "ada", "password": "s3cret"}),
        ("header", {"name": "X-Key", "value": "s3cret"}, {"name": "X-Key", "value": "s3cret"}),
        ("header", {"headers": {"A": "s3cret"}}, {"headers": {"A": "s3cret"}}),
        ("postgres", {"dsn": "postgresql://u:s3cret@h/d"}, {"dsn": "postgresql://u:s3cret@h/d"}),
        ("postgres", {"host": "h", "port": "5433", "db_name": "d"}, {"host": "h", "port": 5433, "database": "d"}),
        ("oauth2", {**OAUTH2, "scope": ["a", "b"]}, {**OAUTH2, "scope": "a b", "auth_style": "body"}),
        ("rabbitmq", {"url": "amqps://u:s3cret@h/v"}, {"url": "amqps://u:s3cret@h/v"}),
        ("generic", {"a": "s3cret", "b": "other"}, {"a": "s3cret", "b": "other"}),
    ],
)
def test_a_kind_has_its_fields_in_one_form(kind: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert checked_fields(kind, given) == expected


@pytest.mark.parametrize(
    ("kind", "given", "path", "said"),
    [
        ("vault", {"token": "s3cret"}, "kind", "there is no such kind"),
        ("bearer", {}, "token", "required"),
        ("bearer", {"token": "s3cret", "user": "s3cret"}, "user", "there is no such field"),
        ("bearer", {"token": "abc"}, "token", "at least 4 characters"),
        ("bearer", {"token": 12345678}, "token", "a text is needed"),
        ("basic", {"user": "", "password": "s3cret"}, "user", "it is empty"),
        ("header", {"name": "X"}, "", "'name' and 'value' go together"),
        ("header", {"name": "a b", "value": "s3cret"}, "name", "pattern"),
        ("header", {"headers": {}}, "headers", "it is empty"),
        ("header", {"headers": {"A": "s3cret"}, "name": "X", "value": "s3cret"}, "", "either"),
        ("postgres", {}, "", "'dsn' or 'host' is needed"),
        ("postgres", {"dsn": "mysql://u:s3cret@h/d"}, "", "begins with postgresql://"),
        ("postgres", {"dsn": "postgresql://u:pw@h/d"}, "", "less than 4 characters"),
        ("postgres", {"dsn": "postgresql://u:s3cret@[h/d"}, "", "cannot be read"),
        ("postgres", {"dsn": "postgresql://h/d", "password": "s3cret"}, "", "either 'dsn' or its parts"),
        ("postgres", {"host": "h", "port": 70000}, "port", "65535"),
        ("oauth2", {**OAUTH2, "token_url": "ftp://s3cret"}, "token_url", "pattern"),
        ("oauth2", {**OAUTH2, "token_url": "https://u:s3cret@id/"}, "token_url", "pattern"),
        ("oauth2", {**OAUTH2, "auth_style": "s3cret"}, "auth_style", "'body' or 'basic'"),
        ("rabbitmq", {"url": "https://s3cret"}, "", "begins with amqp://"),
        ("generic", {}, "", "1 to 64 fields"),
        ("generic", {"a-b": "s3cret"}, "", "letters, digits"),
        ("generic", {"a": {"b": "s3cret"}}, "a", "a text is needed"),
    ],
)
def test_what_does_not_fit_is_said_without_its_value(kind: str, given: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(BadCredentialError) as caught:
        checked_fields(kind, given)

    assert (path, True) in [(where, said in why) for where, why in caught.value.errors]
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("bearer", {"token": "s3cret"}, {"s3cret"}),
        ("basic", {"user": "ada", "password": "s3cret"}, {"s3cret", "ada:s3cret"}),
        ("header", {"name": "X-Key", "value": "s3cret"}, {"s3cret"}),
        ("header", {"headers": {"X-Key": "s3cret"}}, {"s3cret"}),
        ("postgres", {"dsn": "postgresql://u:s3%2Fcret@h/d"}, {"postgresql://u:s3%2Fcret@h/d", "s3%2Fcret", "s3/cret"}),
        ("postgres", {"host": "h", "user": "u", "password": "s3cret"}, {"s3cret", "u:s3cret"}),
        ("oauth2", {**OAUTH2, "scope": "all"}, {"s3cret", "me:s3cret"}),
        ("rabbitmq", {"url": "amqp://u:s3cret@h/v"}, {"amqp://u:s3cret@h/v", "s3cret"}),
        ("generic", {"user": "ada", "key": "s3cret"}, {"ada", "s3cret"}),
        ("of_a_plug_in", {"a": "s3cret", "b": ["other", {"c": "third"}], "n": 1}, {"s3cret", "other", "third"}),
    ],
)
def test_secret_is_what_gives_access_and_what_it_is_not_known_of(
    kind: str, fields: dict[str, Any], expected: set[str]
) -> None:
    assert set(secret_texts(kind, fields)) == expected


@pytest.mark.parametrize(
    ("word", "kind"),
    [("postgres_credential", "postgres"), ("PostgreSQL", "postgres"), ("api-key", "header"), ("nothing", None)],
)
def test_a_kind_has_other_names(word: str, kind: str | None) -> None:
    assert kind_of(word) == kind
