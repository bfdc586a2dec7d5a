"""The kinds of credentials: which fields each has, which of them are secret, and what else gives a secret away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

# A shorter text is in too many others to be kept out of what is shown.
SHORTEST_SECRET = 4
MAX_TEXT = 64 * 1024
MAX_FIELDS = 64
KINDS = ("postgres", "bearer", "basic", "header", "oauth2", "rabbitmq", "generic")
_ALIASES = {
    "postgresql": "postgres",
    "token": "bearer",
    "bearer_token": "bearer",
    "basic_auth": "basic",
    "http_basic": "basic",
    "api_key": "header",
    "oauth2_client_credentials": "oauth2",
    "client_credentials": "oauth2",
    "amqp": "rabbitmq",
    "secret": "generic",
}
# Fields that are no secrets; every other one is, and every one of a kind that is not known.
_SHOWN = {
    "postgres": frozenset({"host", "port", "database", "user", "sslmode", "options"}),
    "basic": frozenset({"user", "username"}),
    "header": frozenset({"name"}),
    "oauth2": frozenset({"token_url", "client_id", "scope", "audience", "auth_style"}),
    "rabbitmq": frozenset({"host", "port", "user", "vhost"}),
}


class BadCredentialError(ValueError):
    """The fields do not make a credential; `errors` say where and why, and never repeat a value."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in errors))
        self.errors = errors


def kind_of(word: str) -> str | None:
    """Return the kind that a word stands for: `postgres_credential` is `postgres`."""
    plain = word.strip().lower().replace("-", "_")
    for name in (plain, plain.removesuffix("_credentials"), plain.removesuffix("_credential")):
        if name in KINDS:
            return name
        if name in _ALIASES:
            return _ALIASES[name]
    return None


def checked_fields(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a credential in their one form; raises BadCredentialError."""
    found: dict[str, Any] = _plain(_parsed(kind, fields).model_dump(exclude_none=True))
    return found


def secret_texts(kind: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return every text that must not be shown, also what only gives a secret away, such as the password of a DSN."""
    shown = _SHOWN.get(kind_of(kind) or "", frozenset())
    found = [text for name, value in fields.items() if name not in shown for text in _texts(value)]
    for address in ("dsn", "url"):
        found += _password_in(fields.get(address))
    for user, secret in (("user", "password"), ("username", "password"), ("client_id", "client_secret")):
        if isinstance(fields.get(user), str) and isinstance(fields.get(secret), str):
            found.append(f"{fields[user]}:{fields[secret]}")
    return tuple(dict.fromkeys(found))


def _text(value: object) -> object:
    if not isinstance(value, str | SecretStr):
        raise ValueError("a text is needed")
    return value


def _words(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list) else value


Secret: TypeAlias = Annotated[SecretStr, BeforeValidator(_text), Field(min_length=SHORTEST_SECRET, max_length=MAX_TEXT)]
Text: TypeAlias = Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1, max_length=4096)]
HeaderName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", min_length=1, max_length=200)
]
FieldName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]


class Fields(BaseModel):
    """The fields of one kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Postgres(Fields):
    """A database: its address as one text, or in parts."""

    dsn: Secret | None = None
    host: Text | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    database: Annotated[Text | None, Field(validation_alias=AliasChoices("database", "dbname", "db_name"))] = None
    user: Annotated[Text | None, Field(validation_alias=AliasChoices("user", "username"))] = None
    password: Secret | None = None
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    options: dict[FieldName, Text] | None = None

    @model_validator(mode="after")
    def _is_one_address(self) -> Postgres:
        parts = (self.host, self.port, self.database, self.user, self.password, self.sslmode, self.options)
        if self.dsn is not None and any(part is not None for part in parts):
            raise ValueError("give either 'dsn' or its parts")
        if self.dsn is None and self.host is None:
            raise ValueError("'dsn' or 'host' is needed")
        _check_address(self.dsn, ("postgresql", "postgres"), "dsn")
        return self


class Bearer(Fields):
    """A token that is sent as `Authorization: Bearer …`."""

    token: Secret


class Basic(Fields):
    """User and password, sent as HTTP has it."""

    user: Annotated[Text, Field(validation_alias=AliasChoices("user", "username"))]
    password: Secret


class Header(Fields):
    """One header, or several."""

    name: HeaderName | None = None
    value: Secret | None = None
    headers: Annotated[dict[HeaderName, Secret] | None, Field(min_length=1, max_length=MAX_FIELDS)] = None

    @model_validator(mode="after")
    def _is_one_or_many(self) -> Header:
        if (self.name is None) != (self.value is None):
            raise ValueError("'name' and 'value' go together")
        if (self.headers is None) == (self.name is None):
            raise ValueError("give either 'name' and 'value', or 'headers'")
        return self


class OAuth2(Fields):
    """A client that gets tokens for itself."""

    token_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]+$", max_length=2000)]
    client_id: Text
    client_secret: Secret
    scope: Annotated[Text | None, BeforeValidator(_words)] = None
    audience: Text | None = None
    auth_style: Literal["body", "basic"] = "body"


class RabbitMQ(Fields):
    """A broker, by its address."""

    url: Secret

    @model_validator(mode="after")
    def _is_an_address(self) -> RabbitMQ:
        _check_address(self.url, ("amqp", "amqps"), "url")
        return self


class Generic(Fields):
    """Any texts by name, for `keychain` expressions; all of them are secret."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)
    __pydantic_extra__: dict[str, Secret]

    @model_validator(mode="after")
    def _has_names(self) -> Generic:
        names = list(self.__pydantic_extra__)
        if not names or len(names) > MAX_FIELDS:
            raise ValueError(f"1 to {MAX_FIELDS} fields are needed")
        if not all(name.isidentifier() and name.isascii() for name in names):
            raise ValueError("the name of a field has letters, digits and _, and no digit first")
        return self


_MODELS: dict[str, type[Fields]] = {
    "postgres": Postgres,
    "bearer": Bearer,
    "basic": Basic,
    "header": Header,
    "oauth2": OAuth2,
    "rabbitmq": RabbitMQ,
    "generic": Generic,
}


def _parsed(kind: str, fields: Mapping[str, Any]) -> Fields:
    name = kind_of(kind)
    if name is None:
        raise BadCredentialError([("kind", f"there is no such kind; there are {', '.join(KINDS)}")])
    try:
        return _MODELS[name].model_validate(dict(fields))
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_input=False, include_context=False)
        raise BadCredentialError([_said(error["loc"], error["type"], error["msg"]) for error in errors]) from None


def _said(place: tuple[int | str, ...], type_: str, message: str) -> tuple[str, str]:
    path = ".".join(str(part) for part in place)
    if type_ == "extra_forbidden":
        return path, "there is no such field"
    if type_ == "too_short" and f"at least {SHORTEST_SECRET} " in message:
        return path, f"at least {SHORTEST_SECRET} characters are needed, or it could not be kept out of what is shown"
    if type_ == "too_short":
        return path, "it is empty"
    return path, message.removeprefix("Value error, ")


def _check_address(address: SecretStr | None, schemes: tuple[str, ...], what: str) -> None:
    if address is None:
        return
    try:
        parts = urlsplit(address.get_secret_value())
        _ = parts.port
    except ValueError:
        raise ValueError(f"'{what}' cannot be read as an address") from None
    if parts.scheme not in schemes:
        raise ValueError(f"'{what}' begins with {schemes[0]}://")
    if parts.password is not None and len(parts.password) < SHORTEST_SECRET:
        raise ValueError(f"the password in '{what}' has less than {SHORTEST_SECRET} characters")


def _password_in(address: Any) -> list[str]:
    try:
        password = urlsplit(address).password if isinstance(address, str) else None
    except ValueError:
        return []
    return [password, unquote(password)] if password else []


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and value:
        yield value
