"""What counts as true in a condition, and the status with two names."""

from decimal import Decimal

import pytest

from shared.templates.truth import StatusText, truthy
from shared.templates.undefined import Undefined
from tests.unit.templates.evaluating import value

TRUE = (True, 1, -1, 0.5, float("inf"), Decimal("0.1"), [0], (0,), {"a": 0}, {0}, range(1))
TRUE_TEXTS = ("true", "TRUE", "1", "yes", "On", "  true\n")
FALSE: tuple[object, ...] = (
    False,
    0,
    0.0,
    float("nan"),
    Decimal("NaN"),
    Decimal(0),
    [],
    (),
    {},
    set(),
    range(0),
    None,
    object(),
)
FALSE_TEXTS = ("", " ", "false", "no", "0", "2", "truee", "success", b"true", Undefined("a", {}))


@pytest.mark.parametrize("judged", [*TRUE, *TRUE_TEXTS])
def test_a_value_that_says_something_is_true(judged: object) -> None:
    assert truthy(judged) is True


@pytest.mark.parametrize("judged", [*FALSE, *FALSE_TEXTS])
def test_everything_else_is_false(judged: object) -> None:
    assert truthy(judged) is False


def test_success_and_ok_are_one_status() -> None:
    status = StatusText("success")

    assert status == "ok"
    assert "ok" == status  # noqa: SIM300 - both directions
    assert status == "success"
    assert (status != "ok") is False
    assert status != "error"
    assert status != 1
    assert status in ["ok"]
    assert "ok" in [status]
    assert hash(status) == hash("success")


def test_another_status_is_only_itself() -> None:
    status = StatusText("error")

    assert status == "error"
    assert status != "ok"
    assert hash(status) == hash("error")


@pytest.mark.parametrize(
    "condition",
    ["s == 'ok'", "'ok' == s", "s == 'success'", "s in ['ok', 'done']", "'ok' in [s]", "not s != 'ok'", "s != 'error'"],
)
def test_templates_know_both_names(condition: str) -> None:
    assert value(f"{{{{ {condition} }}}}", s=StatusText("success")) is True


def test_a_status_leaves_a_template_as_plain_text() -> None:
    status = value("{{ s }}", s=StatusText("success"))

    assert type(status) is str
    assert status == "success"
    assert value("is {{ s }}", s=StatusText("success")) == "is success"
