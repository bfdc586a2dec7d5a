"""What a driver's error means for the caller."""

from __future__ import annotations

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from shared.errors import ConflictError, RedriveError, RejectedError, UnavailableError
from shared.store.connecting import driver_url, meaning_of, translated


@pytest.mark.parametrize(
    ("problem", "meaning"),
    [
        (asyncpg.SerializationError("x"), ConflictError),
        (asyncpg.DeadlockDetectedError("x"), ConflictError),
        (asyncpg.LockNotAvailableError("x"), ConflictError),
        (asyncpg.UniqueViolationError("x"), ConflictError),
        (asyncpg.UntranslatableCharacterError("x"), RejectedError),
        (asyncpg.NumericValueOutOfRangeError("x"), RejectedError),
        (asyncpg.StatementTooComplexError("x"), RejectedError),
        (asyncpg.DataError("x"), RejectedError),
        (asyncpg.ConnectionDoesNotExistError("x"), UnavailableError),
        (asyncpg.CannotConnectNowError("x"), UnavailableError),
        (asyncpg.AdminShutdownError("x"), UnavailableError),
        (asyncpg.QueryCanceledError("x"), UnavailableError),
        (asyncpg.TooManyConnectionsError("x"), UnavailableError),
        (asyncpg.DiskFullError("x"), UnavailableError),
        (asyncpg.UndefinedTableError("x"), UnavailableError),
        (asyncpg.InterfaceError("connection is closed"), UnavailableError),
        (ConnectionRefusedError("x"), UnavailableError),
        (TimeoutError(), UnavailableError),
        (PoolTimeoutError(), UnavailableError),
    ],
)
def test_every_error_says_what_to_do(problem: Exception, meaning: type[RedriveError]) -> None:
    assert type(meaning_of(problem)) is meaning


def test_an_error_that_sqlalchemy_wrapped_is_unwrapped() -> None:
    inner = Exception("wrapped")
    inner.__cause__ = asyncpg.DeadlockDetectedError("x")

    assert type(meaning_of(DBAPIError("SELECT", {}, inner))) is ConflictError


def test_an_error_of_ours_or_of_the_code_is_left_as_it_is() -> None:
    for problem in (RejectedError("x"), KeyError("x")):
        with pytest.raises(type(problem)) as caught, translated():
            raise problem
        assert caught.value is problem


def test_the_drivers_error_stays_behind_the_translated_one() -> None:
    with pytest.raises(UnavailableError) as caught, translated():
        raise ConnectionResetError("cut")

    assert isinstance(caught.value.__cause__, ConnectionResetError)


@pytest.mark.parametrize("url", ["postgres://u@h/d", "postgresql://u@h/d", "postgresql+asyncpg://u@h/d"])
def test_every_usual_spelling_of_a_url_is_understood(url: str) -> None:
    assert driver_url(url).drivername == "postgresql+asyncpg"


def test_a_password_is_not_in_the_message_about_a_wrong_url() -> None:
    with pytest.raises(RejectedError) as caught:
        driver_url("mysql://user:secret@host/name")

    assert "secret" not in str(caught.value)
