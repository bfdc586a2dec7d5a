"""How tokens meet at a step, as written and as planned."""

import pytest

from shared.language.plan import Join
from tests.support.language import error, found, marked, of_steps, step_of

OTHERS = "\n- {step: a, next: [b, c]}\n- {step: b, next: only}\n- {step: c, next: only}"


def join(text: str) -> Join:
    return step_of(of_steps(f"- step: only\n  {text}{OTHERS}")).join


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("desc: nothing said", Join("merge")),
        ("join: none", Join("none")),
        ("join: {of: [b, c]}", Join("all", ("b", "c"))),
        ("join: {of: [b, c], mode: all}", Join("all", ("b", "c"))),
        ("join: {of: [b, c], mode: any}", Join("any", ("b", "c"))),
        ("join: {of: [b, c], mode: 2}", Join("count", ("b", "c"), 2)),
        ("join: {of: [b, c], mode: 2.0}", Join("count", ("b", "c"), 2)),
        ("join: {mode: any}", Join("any")),
        ("join: {mode: 3}", Join("count", (), 3)),
        ("join: {}", Join("all")),
    ],
)
def test_every_form_of_a_join_is_planned(text: str, expected: Join) -> None:
    assert join(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("▸some", "wrong-choice"),
        ("▸null", "wrong-type"),
        ("▸[b, c]", "wrong-type"),
        ("{of: ▸[]}", "too-few"),
        ("{of: ▸b}", "wrong-type"),
        ("{of: [b, ▸nowhere]}", "unknown-step"),
        ("{of: [b, ▸b]}", "said-twice"),
        ("{of: [b, c], mode: ▸most}", "wrong-choice"),
        ("{of: [b, c], mode: ▸0}", "wrong-type"),
        ("{of: [b, c], mode: ▸1.5}", "wrong-type"),
        ("{of: [b, c], mode: ▸3}", "join-count"),
        ("{of: [b, c], ▸kind: all}", "unknown-key"),
    ],
)
def test_a_wrong_join_is_an_error_at_its_place(text: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- step: only\n  join: {text}{OTHERS}"))

    assert found(source) == [(code, line, column)]


def test_a_mode_in_place_of_the_mapping_is_shown_how_to_write_it() -> None:
    assert error(of_steps("- {step: a, join: any}")).hint == "write join: { mode: any }"
