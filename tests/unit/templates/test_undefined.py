"""What is not there is nothing: falsy, equal to null, empty, and remembered."""

import pytest

from tests.unit.templates.evaluating import evaluate, failure


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ gone }}", None),
        ("{{ gone.a.b }}", None),
        ("{{ gone['a'][0] }}", None),
        ("{{ gone == none }}", True),
        ("{{ gone != none }}", False),
        ("{{ none == gone }}", True),
        ("{{ gone == gone.a }}", True),
        ("{{ gone == 'a' }}", False),
        ("{{ gone > 1 }}", False),
        ("{{ gone <= 1 }}", False),
        ("{{ 1 >= gone }}", False),
        ("{{ 'a' in gone }}", False),
        ("{{ 'a' not in gone }}", True),
        ("{{ gone in 'abc' }}", False),
        ("{{ not gone }}", True),
        ("{{ gone or 'x' }}", "x"),
        ("{{ gone | length }}", 0),
        ("{{ gone | lower }}", ""),
        ("{{ gone | int }}", 0),
        ("{{ gone | float }}", 0.0),
        ("{{ gone | list }}", []),
        ("{{ gone | join(',') }}", ""),
        ("{{ gone | bool }}", False),
        ("{{ gone.lower() }}", None),
        ("{{ gone[1:] }}", None),
        ("{% for x in gone %}x{% else %}none{% endfor %}", "none"),
        ("[{{ gone }}]", "[]"),
    ],
)
def test_nothing_is_lenient_and_noted_where_it_is_used(text: str, expected: object) -> None:
    found = evaluate(text)

    assert found.value == expected
    assert type(found.value) is type(expected)
    assert found.missing[0].startswith("gone")


@pytest.mark.parametrize(
    "text",
    [
        "{{ gone | default(2) }}",
        "{{ gone.a | d(2) }}",
        "{{ gone is defined }}",
        "{{ gone is undefined }}",
        "{{ gone is none }}",
        "{{ 1 if true else gone }}",
        "{{ true or gone }}",
        "{{ 1 if false }}",
    ],
)
def test_nothing_that_is_expected_or_not_read_is_not_noted(text: str) -> None:
    assert evaluate(text).missing == ()


def test_a_missing_name_is_noted_once_by_its_whole_path() -> None:
    found = evaluate("{{ a.b['c-d'][0] == 1 or a.b['c-d'][0] == 2 or a.x }}", a={})

    assert found.missing == ("a.b.c-d.0", "a.x")


def test_at_most_twenty_missing_names_are_noted() -> None:
    text = " ".join(f"{{{{ gone_{number} }}}}" for number in range(50))

    assert len(evaluate(text).missing) == 20


@pytest.mark.parametrize(
    "text",
    ["{{ gone + 1 }}", "{{ 1 - gone }}", "{{ -gone }}", "{{ gone * 2 }}", "{{ gone | abs }}", "{{ 'a'.strip(gone) }}"],
)
def test_computing_with_nothing_is_an_error_that_names_it(text: str) -> None:
    error = failure(text)

    assert error.reason == "undefined"
    assert "'gone' is undefined" in error.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ 'timeout' in (error | lower) }}", False),
        ("{{ 'timeout' in error }}", False),
        ("{{ status_code >= 500 or error != none }}", False),
        ("{{ status_code < 500 }}", False),
        ("{{ error | upper | trim | replace('a', 'b') | title }}", ""),
        ("{{ error | length }}", 0),
        ("{{ error | int }}", 0),
        ("{{ error | list }}", []),
        ("{{ error.kind == 'auth' }}", False),
    ],
)
def test_null_does_not_break_the_usual_conditions(text: str, expected: object) -> None:
    assert evaluate(text, error=None, status_code=None).value == expected


def test_an_error_tells_the_template_the_line_and_the_names_in_scope() -> None:
    text = "first {{ a }}\n{% if a %}\n{{ a\n + b }}{% endif %}"

    error = failure(text, a=1, zone=2)

    assert error.template == text
    assert error.line == 3
    assert error.names_in_scope == ("a", "zone")
    assert str(error) == error.message
