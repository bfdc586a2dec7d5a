"""Hostile templates end early, in the same way every time, with nothing but the two errors that callers expect."""

import time
from collections.abc import Iterator

import pytest

from shared.templates.expressions import EvaluationError, TemplateSyntaxProblem, compile_template
from shared.templates.limits import MAX_SOURCE

SCOPE = {"text": "x" * 1000, "numbers": list(range(1000)), "deep": {}, "wide": {str(n): n for n in range(1000)}}
DOUBLE_TEXT = "{% set x = 'aaaaaaaa' %}" + "{% set x = x + x %}" * 60 + "{{ x }}"
DOUBLE_JOIN = "{% set x = 'aaaaaaaa' %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}"
DOUBLE_LIST = "{% set x = [1, 2] %}" + "{% set x = x + x %}" * 60 + "{{ x | length }}"
DOUBLE_BLOCK = "{% set x = 'aaaaaaaa' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60 + "{{ x }}"
SHARED = "{% set a = ['a'] %}" + "{% set a = [a, a] %}" * 60
TWICE_SHARED = SHARED + "{% set b = ['a'] %}" + "{% set b = [b, b] %}" * 60
LONG = "{% set a = text * 1000 ~ 'a' %}{% set b = text * 1000 ~ 'b' %}"
DEEPER = "{% set ns = namespace(a=[]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% endfor %}"

LIMITED = {
    "power": "{{ 10 ** (10 ** 10) }}",
    "power of powers": "{{ 10 ** 10 ** 10 ** 10 ** 10 }}",
    "squaring": "{% set x = 99 %}" + "{% set x = x * x %}" * 40 + "{{ x }}",
    "adding up": "{% set x = 2 ** 4000 %}" + "{% set x = x + x %}" * 200 + "{{ x }}",
    "text times number": "{{ 'a' * 10 ** 9 }}",
    "number times text": "{{ 10 ** 9 * 'a' }}",
    "list times number": "{{ [0] * 10 ** 9 }}",
    "text doubled": DOUBLE_TEXT,
    "text doubled with ~": DOUBLE_JOIN,
    "text doubled in blocks": DOUBLE_BLOCK,
    "list doubled": DOUBLE_LIST,
    "percent width": "{{ '%999999999d' % 1 }}",
    "percent precision": "{{ '%.999999999f' % 1 }}",
    "percent filter": "{{ '%999999999s' | format('x') }}",
    "percent of long texts": "{{ ('%s' * 900) % ([text * 1000] * 900) }}",
    "format width": "{{ '{:>999999999}'.format(1) }}",
    "format of long texts": "{{ ('{0}' * 900).format(text * 1000) }}",
    "center filter": "{{ 'x' | center(10 ** 9) }}",
    "ljust": "{{ 'x'.ljust(10 ** 9) }}",
    "rjust": "{{ 'x'.rjust(10 ** 9, '.') }}",
    "center": "{{ 'x'.center(10 ** 9) }}",
    "zfill": "{{ 'x'.zfill(10 ** 9) }}",
    "indent": "{{ 'x' | indent(10 ** 9) }}",
    "indent with a long text": "{{ ('x\n' * 100000) | indent(text) }}",
    "replace nothing": "{{ (text * 1000).replace('', text) }}",
    "replace filter": "{{ (text * 1000) | replace('', text) }}",
    "join with a long separator": "{{ range(100000) | join(text) }}",
    "join of texts": "{{ (text * 1000).join(numbers) }}",
    "batch": "{{ [1] | batch(10 ** 9, 0) }}",
    "slice": "{{ [1] | slice(10 ** 9) }}",
    "range": "{{ range(10 ** 9) }}",
    "range downwards": "{{ range(0, -10 ** 9, -1) | list }}",
    "huge range": "{{ range(10 ** 100) }}",
    "list of characters": "{{ (text * 1000) | list }}",
    "split": "{{ ('a ' * 500000).split() }}",
    "flatten": "{{ ([numbers] * 10000) | flatten }}",
    "zip": "{{ range(100000) | zip(range(100000), range(100000)) }}",
    "nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "nested loops that print": "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    "loops that filter": "{% for a in range(9999) %}{% for b in range(9999) if false %}{% endfor %}{% endfor %}",
    "long output": "{% for a in range(90000) %}{{ text }}{% endfor %}",
    "recursive macro": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "macro given to itself": "{% macro a(f) %}{{ f(f) }}{% endmacro %}{{ a(a) }}",
    "macro tree": "{% macro a(n) %}{% if n %}" + "{{ a(n - 1) }}" * 50 + "{% endif %}{% endmacro %}{{ a(9) }}",
    "recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "map of loops": "{{ range(90000) | map('string') | map('upper') | map('lower') | map('trim') | list }}",
    "shared lists as json": SHARED + "{{ a | tojson }}",
    "shared lists as text": SHARED + "{{ a }}",
    "shared lists compared": TWICE_SHARED + "{{ a == b }}",
    "shared lists searched": TWICE_SHARED + "{{ a in [b] }}",
    "shared lists ordered": TWICE_SHARED + "{{ a < b }}",
    "shared lists counted": TWICE_SHARED + "{{ [b].count(a) }}",
    "shared lists made unique": TWICE_SHARED + "{{ [a, b] | unique }}",
    "deep list": DEEPER + "{{ ns.a }}",
    "deep list compared": DEEPER + "{{ ns.a == [ns.a] }}",
    "wide json, indented": "{{ ([wide] * 1000) | tojson(indent=8) }}",
    "sums of lists": "{{ ([numbers] * 1000) | sum(start=[]) }}",
    "combined for ever": "{% for i in range(99999) %}{% set x = wide | combine(wide) %}{% endfor %}",
    "escaped": "{{ ('<' * 1000000) | escape }}",
    "encoded": "{{ ('é' * 900000) | urlencode }}",
    "long texts searched in a list": "{{ (text * 1000 ~ 'b') in [text * 1000 ~ 'a'] * 200000 }}",
    "long texts compared in lists": "{{ [text * 1000] * 200000 == [text * 999 ~ text] * 200000 }}",
    "long texts compared": LONG + "{% for i in range(99999) %}{% if a == b %}{% endif %}{% endfor %}",
    "long texts ordered": LONG + "{% for i in range(99999) %}{% if a < b %}{% endif %}{% endfor %}",
    "long texts as keys": LONG + "{% set d = {a: 1} %}{% for i in range(99999) %}{{ d[b] }}{% endfor %}",
    "long texts sorted": "{{ ([text * 1000] * 200000) | sort }}",
    "long texts made unique": "{{ ([text * 1000] * 200000) | unique }}",
    "long texts grouped": "{{ ([{'k': text * 1000}] * 200000) | groupby('k') }}",
    "long texts counted": "{{ ([text * 1000] * 200000).count(text * 1000) }}",
    "strip by a long text": "{{ (text * 1000).strip('b' * 1000000 ~ 'x') }}",
    "rsplit by a long text": "{{ (text * 1000).rsplit('b' ~ text * 500) }}",
    "slow search": "{% set h = 'a' * 2400 %}{% set n = 'a' * 600 ~ 'b' ~ 'a' * 600 %}"
    "{% for i in range(99999) %}{% if n in h %}{% endif %}{% endfor %}",
    "slow count": "{% set h = 'a' * 29000 %}{% set n = 'a' * 50 ~ 'b' ~ 'a' * 48 %}"
    "{% for i in range(99999) %}{% if h.count(n) %}{% endif %}{% endfor %}",
    "title again and again": "{% for i in range(999) %}{{ ('a ' * 500000) | title | length }}{% endfor %}",
    "lines again and again": "{% for i in range(999) %}{{ ('a\n' * 300000) | indent(1) | length }}{% endfor %}",
    "long attribute": "{{ ([1] * 200000) | sort(attribute='a' * 1000000) }}",
    "chain of nothing": "{% set ns = namespace() %}"
    "{% for i in range(99999) %}{% set ns.a = ns.a.b %}{{ i }}{% endfor %}",
    "wide result": "{{ [numbers * 200] * 200000 }}",
    "long texts in a result": "{{ [text * 1000] * 200000 }}",
}  # fmt: skip

REFUSED = {
    "brackets": "{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}",
    "lists": "{{ " + "[" * 10_000 + "]" * 10_000 + " }}",
    "subscripts": "{{ " + "a[" * 10_000 + "0" + "]" * 10_000 + " }}",
    "calls": "{{ " + "dict(a=" * 10_000 + "0" + ")" * 10_000 + " }}",
    "nots": "{{ " + "not " * 10_000 + "a }}",
    "minuses": "{{ " + "-" * 1_000 + " 1 }}",
    "sums": "{{ 1" + "+1" * 10_000 + " }}",
    "ands": "{{ a" + " and a" * 10_000 + " }}",
    "attributes": "{{ a" + ".a" * 10_000 + " }}",
    "filters": "{{ a" + "|lower" * 10_000 + " }}",
    "choices": "{{ 1" + " if a else 1" * 10_000 + " }}",
    "blocks": "{% if a %}" * 10_000 + "{% endif %}" * 10_000,
    "loops": "{% for a in a %}" * 500 + "{% endfor %}" * 500,
    "huge number": "{{ " + "9" * 5_000 + " }}",
    "large number": "{{ " + "9" * 4_000 + " }}",
    "huge number with marks": "{{ " + "1_" * 50_000 + "1 }}",
    "huge hexadecimal number": "{{ 0x" + "f" * 50_000 + " }}",
    "long text": "{{ a }}" + "x" * MAX_SOURCE,
    "one megabyte": "{{ a }}" * 150_000,
    "openings": "{{" * 100_000,
    "comment openings": "{#" * 100_000,
    "raw openings": "{% raw %}" * 20_000,
    "quotes": "{{ " + "'" * 100_001 + " }}",
    "unpacking": "{{ range(*numbers) }}",
}


@pytest.fixture(autouse=True)
def _quickly() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 2.0  # two evaluations of less than a second each


@pytest.mark.parametrize("text", LIMITED.values(), ids=LIMITED.keys())
def test_a_template_that_would_grow_or_run_too_far_is_stopped(text: str) -> None:
    template = compile_template(text)

    with pytest.raises(EvaluationError) as first:
        template.evaluate(SCOPE)
    with pytest.raises(EvaluationError) as second:
        template.evaluate(SCOPE)

    assert first.value.reason == "limit"
    assert second.value.message == first.value.message


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_text_that_is_too_long_or_too_deep_is_no_template(text: str) -> None:
    with pytest.raises(TemplateSyntaxProblem) as caught:
        compile_template(text)

    assert caught.value.message


def test_bytes_cannot_be_made() -> None:
    template = compile_template("{{ (1).to_bytes(10 ** 9, 'big') }}")

    with pytest.raises(EvaluationError) as caught:
        template.evaluate({})

    assert caught.value.reason == "sandbox"


def test_a_large_result_passes_through_unchanged() -> None:
    rows = [{"id": number, "name": "x" * 20} for number in range(100_000)]

    value = compile_template("{{ outcome.result }}").evaluate({"outcome": {"result": rows}}).value

    assert value is rows


def test_a_hundred_thousand_elements_can_be_filtered_and_mapped() -> None:
    rows = [{"id": number, "even": number % 2 == 0} for number in range(100_000)]

    template = compile_template("{{ rows | selectattr('even') | map(attribute='id') | list | length }}")

    assert template.evaluate({"rows": rows}).value == 50_000


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(EvaluationError) as caught:
        compile_template("{{ endless }}").evaluate({"endless": endless})

    assert caught.value.reason == "limit"


def test_the_limit_of_nesting_does_not_depend_on_the_callers_stack() -> None:
    text = "{{ " + "(" * 25 + "a" + ")" * 25 + " }}"

    def called_from(depth: int) -> object:
        return called_from(depth - 1) if depth else compile_template(text + " " * 17_000).evaluate({"a": 1}).value

    assert called_from(300) == 1
