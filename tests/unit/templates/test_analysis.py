"""What a template tells about itself before it is evaluated."""

import pytest

from shared.templates.expressions import Path, compile_template


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("plain", []),
        ("{{ 1 + 2 }}", []),
        ("{{ a }}", [("a",)]),
        (
            "{{ outcome.http.headers['retry-after'] | default(2) }}",
            [("outcome", "http", "headers", "retry-after")],
        ),
        ("{{ a[0].b }} {{ a[-1] }}", [("a", -1), ("a", 0, "b")]),
        ("{{ a.b[i].c }}", [("a", "b"), ("i",)]),
        ("{{ a.items() }} {{ b.c.lower() }}", [("a",), ("b", "c")]),
        ("{{ rand() + now().year }}", []),
        ("{{ a | join(sep) if b is eq c else {'k': d}[e] }}", [("a",), ("b",), ("c",), ("d",), ("e",), ("sep",)]),
        ("{% for x in xs if x.a %}{{ x.b }}{{ loop.index }}{{ y }}{% endfor %}{{ x }}", [("x",), ("xs",), ("y",)]),
        ("{% set a = a.b %}{{ a.c }}", [("a", "b")]),
        ("{% if c %}{% set a = 1 %}{% endif %}{{ a }}", [("a",), ("c",)]),
        ("{% with a = b %}{{ a }}{% endwith %}{{ a }}", [("a",), ("b",)]),
        ("{% macro m(a, b=c) %}{{ a }}{{ d }}{% endmacro %}{{ m(e) }}", [("c",), ("d",), ("e",)]),
        ("{% set x %}{{ a }}{% endset %}{{ x }}", [("a",)]),
        ("{{ range }}", [("range",)]),
    ],
)
def test_a_template_knows_what_it_reads(text: str, reads: list[Path]) -> None:
    template = compile_template(text)

    assert list(template.reads) == reads
    assert template.names == {path[0] for path in reads}


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("{{ rand() * 2 }}", {"rand"}),
        ("{{ now().year }} {{ range(3) }}", {"now", "range"}),
        ("{{ a.lower() }}", set()),
        ("{% macro rand() %}{% endmacro %}{{ rand() }}", set()),
    ],
)
def test_a_template_knows_the_functions_it_calls(text: str, functions: set[str]) -> None:
    assert compile_template(text).functions == functions


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{{ a }}", ("a",)),
        (" {{ a.b['c-d'][0] }} ", ("a", "b", "c-d", 0)),
        ("{{ (a.b) }}", ("a", "b")),
        ("{{ a }}!", None),
        ("{{ a | default(1) }}", None),
        ("{{ a[b] }}", None),
        ("{{ a.lower() }}", None),
        ("{{ 'a'.b }}", None),
        ("a", None),
    ],
)
def test_a_chain_of_names_is_a_pure_path(text: str, path: Path | None) -> None:
    assert compile_template(text).pure_path == path


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("{{ outcome.status == 'error' }}", "on_error"),
        ("{{ output.status == 'error' }}", "on_error"),
        ("{{ outcome['status'] != 'success' }}", "on_error"),
        ("{{ outcome.status != 'ok' }}", "on_error"),
        ("{{ 'error' == outcome.status }}", "on_error"),
        ("{{ outcome.status == 'success' }}", "on_success"),
        ("{{ 'ok' == output.status }}", "on_success"),
        ("{{ outcome.status != 'error' }}", "on_success"),
        ("{{ true }}", "always"),
        ("{{ 'yes' }}", "always"),
        ("true", "always"),
        ("{{ false }}", "never"),
        ("{{ none }}", "never"),
        ("anything", "never"),
        ("", "never"),
        ("{{ outcome.status == 'skipped' }}", None),
        ("{{ outcome.status == 'error' and x }}", None),
        ("{{ other.status == 'error' }}", None),
        ("{{ outcome.status > 'error' }}", None),
        ("{{ outcome.status == outcome.status }}", None),
        ("{{ outcome.status == 'error' == true }}", None),
        ("if {{ outcome.status == 'error' }}", None),
    ],
)
def test_the_usual_conditions_are_recognised(text: str, condition: str | None) -> None:
    assert compile_template(text).condition == condition


@pytest.mark.parametrize(
    ("text", "is_constant", "is_expression"),
    [
        ("a", True, False),
        ("{{ a }}", False, True),
        ("\n {{ a }} \n", False, True),
        ("{{ a }}{# why #}", False, True),
        ("{{ a }}.", False, False),
        ("{{ a }}{{ b }}", False, False),
        ("{% if a %}{{ a }}{% endif %}", False, False),
        ("{# only a comment #}", False, False),
    ],
)
def test_a_template_knows_its_kind(text: str, is_constant: bool, is_expression: bool) -> None:
    template = compile_template(text)

    assert (template.is_constant, template.is_expression) == (is_constant, is_expression)
