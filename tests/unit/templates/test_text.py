"""Everything that is not one expression renders to text."""

import pytest
from jinja2 import Environment

from tests.unit.templates.evaluating import failure, value

SCOPE: dict[str, object] = {
    "n": 3,
    "name": "Ada",
    "rows": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}]}, {"v": 3, "c": []}],
    "x": "outer",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a {{ n }} b", "a 3 b"),
        ("{{ n }}{{ n }}", "33"),
        ("[{{ none }}{{ gone }}]", "[]"),
        ("{{ true }} {{ 1.0 }}", "True 1.0"),
        ("rows: {{ rows[0] }}", 'rows: {"id": 1, "tags": ["a", "b"]}'),
        ("at {{ now() }}", "at 2024-05-06T07:08:09Z"),
        ("keeps its last line\n{{ n }}\n ", "keeps its last line\n3\n "),
        ("<{{ '<b>' }}>", "<<b>>"),
    ],
)
def test_values_are_written_into_text(text: str, expected: str) -> None:
    assert value(text, **SCOPE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{% for r in rows %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %}, {% endif %}{% endfor %}",
        "{% for r in rows if r.tags %}{{ r.id }}{% endfor %}",
        "{% for r in [] %}x{% else %}empty{% endfor %}",
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% for r in rows %}{% for t in r.tags %}{{ loop.index0 }}{{ t }}{{ loop.revindex }}{% endfor %}|{% endfor %}",
        "{% for i in range(4) %}{{ loop.cycle('a', 'b') }}{{ loop.first }}{{ loop.depth }}{% endfor %}",
        "{% for i in range(3) %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}{% endfor %}",
        "{% for t in tree recursive %}<{{ t.v }}{{ loop.depth }}{{ loop(t.c) }}>{% endfor %}",
        "{% if n > 5 %}a{% elif n > 2 %}b{% else %}c{% endif %}",
        "{% if n > 5 %}a{% endif %}.",
        "{% set x = 1 %}{{ x }}",
        "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
        "{% set x %}<{{ n }}>{% endset %}{{ x }}{{ x }}",
        "{% set x | upper %}abc{% endset %}{{ x }}",
        "{% set x = 1 %}{% for i in range(2) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
        "{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% set ns = namespace(t=0) %}{% for r in rows %}{% set ns.t = ns.t + r.id %}{% endfor %}{{ ns.t }}",
        "{% with x = n, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
        "{% filter upper | replace('A', 'b') %}a{{ name }}{% endfilter %}",
        "{% macro m(a, b=2) %}[{{ a }}{{ b }}{{ name }}]{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}{{ m(b=1) }}",
        "{% macro fact(n) %}{% if n %}{{ n }}{{ fact(n - 1) }}{% endif %}{% endmacro %}{{ fact(4) }}",
        "{% raw %}{{ n }}{% endraw %}{# nothing #}!",
        "{%- if n -%}  a  {%- endif -%}  b",
        "{{ name | lower | capitalize }} {{ '%s-%s' | format(n, name) }} {{ rows | map(attribute='id') | join('+') }}",
        "{{ 1 if n else 2 }} {{ n is odd }} {{ n in [1, 3] }} {{ 2 < n < 4 }} {{ 'a' ~ n }} {{ -n ** 2 }} {{ n // 2 }}",
        "{{ 'a long text of words' | truncate(12) }} {{ 'x y' | title }}",
        "{{ [3, 1, 2] | sort | join }} {{ 7.5 | round }}",
        "{{ {'b': 1, 'a': 2} | dictsort | map('first') | join }}",
        "{{ [1, 2, 3, 4, 5] | slice(2) | map('sum') | join(',') }}",
        "{% for row in [1, 2, 3, 4, 5] | batch(2, 0) %}{{ row | join }};{% endfor %}{{ 'a\nb' | indent }}",
        "{% for g in rows | groupby('id') %}{{ g.grouper }}:{{ g.list | length }}{% endfor %}",
    ],
)
def test_statements_mean_what_they_mean_in_jinja(text: str) -> None:
    ours = value(text, **SCOPE)

    assert ours == Environment(keep_trailing_newline=True).from_string(text).render(**SCOPE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{% set x.y = 1 %}", "type"),
        ("{% set a, b = [1] %}", "value"),
        ("{% set x = 1 %}{{ x() }}", "type"),
        ("{% for x in 5 %}{% endfor %}", "type"),
        ("{% for x in [1] %}{{ loop([1]) }}{% endfor %}", "type"),
        ("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "type"),
        ("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "type"),
        ("{% macro m() %}{% endmacro %}{{ m }}!", "value"),
    ],
)
def test_a_statement_that_cannot_be_done_is_an_error(text: str, reason: str) -> None:
    assert failure(text, x={}).reason == reason
