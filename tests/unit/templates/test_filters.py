"""The filters and tests a template may use."""

from collections.abc import Callable

import pytest

from shared.templates.expressions import EvaluationError, Helpers, compile_template
from tests.unit.templates.evaluating import failure, value

ROWS = [{"n": 2, "k": "b"}, {"n": 1, "k": "a"}, {"n": 3, "k": "b"}]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'' | default('x', true)", "x"),
        ("none | default('x')", None),
        ("' 42 ' | int", 42),
        ("'4.9' | int", 4),
        ("'x' | int(7)", 7),
        ("'ff' | int(0, 16)", 255),
        ("'1.5' | float", 1.5),
        ("'inf' | float", 0.0),
        ("true | int", 1),
        ("[1, {'a': 'é'}] | string", '[1, {"a": "é"}]'),
        ("'abc' | list", ["a", "b", "c"]),
        ("{'a': 1} | list", ["a"]),
        ("'abc' | length", 3),
        ("[1, 2] | count", 2),
        ("[1, 2] | first", 1),
        ("[1, 2] | last", 2),
        ("[] | first", None),
        ("[1, none, 'a'] | join('-')", "1--a"),
        ("rows | join(',', attribute='k')", "b,a,b"),
        ("'aBc' | upper ~ 'aBc' | lower", "ABCabc"),
        ("'a-b c' | title", "A-B C"),
        ("'aBC' | capitalize", "Abc"),
        ("'xxaxx' | trim('x')", "a"),
        ("'aaa' | replace('a', 'b', 2)", "bba"),
        ("[1, 2] | map('string') | list", ["1", "2"]),
        ("rows | map(attribute='n') | list", [2, 1, 3]),
        ("[{}] | map(attribute='n', default=0) | list", [0]),
        ("[0, 1, 2] | select", [1, 2]),
        ("[1, 2, 3] | select('odd')", [1, 3]),
        ("[1, 2, 3] | reject('gt', 1)", [1]),
        ("rows | selectattr('k', 'equalto', 'a') | map(attribute='n')", [1]),
        ("rows | rejectattr('n', 'in', [1, 2]) | map(attribute='n')", [3]),
        ("rows | groupby('k') | map(attribute='grouper')", ["a", "b"]),
        ("rows | sort(attribute='n') | map(attribute='n')", [1, 2, 3]),
        ("rows | sort(attribute='k,n') | map(attribute='n')", [1, 2, 3]),
        ("['b', 'A', 'c'] | sort", ["A", "b", "c"]),
        ("['b', 'A'] | sort(case_sensitive=true, reverse=true)", ["b", "A"]),
        ("[2, none, 1] | sort", [None, 1, 2]),
        ("['a', 'A', 'b'] | unique", ["a", "b"]),
        ("[[1], [1], {}] | unique", [[1], {}]),
        ("[1, 2.5] | sum", 3.5),
        ("rows | sum(attribute='n')", 6),
        ("[3, 1, 2] | min", 1),
        ("['a', 'c', 'b'] | max", "c"),
        ("rows | max(attribute='n')", {"n": 3, "k": "b"}),
        ("[] | max", None),
        ("[1, 2, 3] | batch(2, 0)", [[1, 2], [3, 0]]),
        ("[1, 2, 3] | slice(2)", [[1, 2], [3]]),
        ("2.567 | round(1)", 2.6),
        ("2.1 | round(0, 'ceil')", 3.0),
        ("2.9 | round(method='floor')", 2.0),
        ("-3 | abs", 3),
        ("{'b': 1, 'a': 2} | dictsort", [["a", 2], ["b", 1]]),
        ("{'b': 1, 'a': 2} | dictsort(by='value')", [["b", 1], ["a", 2]]),
        ("{'a': 1} | items", [["a", 1]]),
        ("{'a': 1} | keys", ["a"]),
        ("{'a': 1} | values", [1]),
        ("none | items", []),
        ("'a long text' | truncate(8, true, '..', 0)", "a long.."),
        ("'one two' | wordcount", 2),
        ("'%s is %03d and %.1f%%' | format('x', 7, 2.25)", "x is 007 and 2.2%"),
        ("'%(a)s' | format(a=1)", "1"),
        ("'%s %s' % ('a', [1])", "a [1]"),
        ("'abc' | reverse", "cba"),
        ("[1, 2] | reverse", [2, 1]),
        ("'<a>' | e", "&lt;a&gt;"),
        ("'a b&/é' | urlencode", "a%20b%26/%C3%A9"),
        ("{'a': 'x y', 'b': 1} | urlencode", "a=x+y&b=1"),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("'a' | center(3)", " a "),
        ("{'a': '<é>'} | tojson", '{"a": "<é>"}'),
        ("[1] | to_json(indent=2)", "[\n  1\n]"),
        ("'{\"a\": [1]}' | from_json", {"a": [1]}),
        ("'[1]' | fromjson | first", 1),
        ("'é' | b64encode", "w6k="),
        ("'w6k=' | b64decode", "é"),
        ("'a' | sha256", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("'Yes' | bool", True),
        ("'no' | bool", False),
        ("'1h30m' | duration", 5400.0),
        ("{'a': 1} | combine({'b': 2}, none)", {"a": 1, "b": 2}),
        ("{'a': {'x': 1}} | combine({'a': {'y': 2}}, recursive=true)", {"a": {"x": 1, "y": 2}}),
        ("[[1], 2, [[3]]] | flatten", [1, 2, [3]]),
        ("[1, 2] | zip(['a', 'b'])", [[1, "a"], [2, "b"]]),
        ("{'a': {'b': [5]}} | get('a.b.0')", 5),
        ("{'a': 1} | get('x.y', 'none')", "none"),
        ("['a', 'b', 'c', 'd'] | random", "b"),
    ],
)
def test_a_filter_gives_its_value(expression: str, expected: object) -> None:
    found = value(f"{{{{ {expression} }}}}", rows=ROWS)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (7, 7),
        (0, 0),
        (1.5, 1.5),
        ("120", 120),
        (" 1.5 ", 1.5),
        ("Mon, 06 May 2024 07:09:09 GMT", 60.0),
        ("Monday, 06-May-24 07:09:09 GMT", 60.0),
        ("Mon May  6 07:09:09 2024", 60.0),
        ("Mon, 06 May 2024 07:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_understood_as_seconds_or_date(given: object, seconds: float) -> None:
    assert value("{{ h | retry_after | default('none') }}", h=given) == seconds


@pytest.mark.parametrize(
    "given",
    [None, "", "soon", -1, "-5", True, float("nan"), float("inf"), [], "Mon, 99 May 2024 07:09:09 GMT"],
)
def test_a_retry_after_that_makes_no_sense_leaves_the_default(given: object) -> None:
    assert value("{{ h | retry_after | default(2) }}", h=given) == 2


def test_a_missing_retry_after_leaves_the_default() -> None:
    assert value("{{ o.headers['retry-after'] | retry_after | default(2) }}", o={}) == 2


@pytest.mark.parametrize("text", ["{{ rand() }}", "{{ now() }}", "{{ [1] | random }}", "{{ d | retry_after }}"])
def test_without_helpers_time_and_chance_are_errors(text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compile_template(text).evaluate({"d": "Mon, 06 May 2024 07:09:09 GMT"})

    assert caught.value.reason == "value"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("5 | length", "type"),
        ("5 | list", "type"),
        ("[1, 'a'] | sort", "type"),
        ("[[1], [2]] | sort", "type"),
        ("5 | items", "type"),
        ("5 | combine({})", "type"),
        ("'x' | abs", "type"),
        ("[1, 'a'] | sum", "type"),
        ("'{' | from_json", "value"),
        ("'[NaN]' | from_json", "value"),
        ("'?' | b64decode", "value"),
        ("'soon' | duration", "value"),
        ("[1] | batch(0)", "value"),
        ("[1] | map(name) | list", "value"),
        ("'%d' | format('x')", "type"),
        ("'%s %s' | format('x')", "value"),
        ("'%r' | format('x')", "value"),
        ("'\\ud800' | sha256", "value"),
    ],
)
def test_a_filter_on_the_wrong_value_is_an_error(expression: str, reason: str) -> None:
    assert failure(f"{{{{ {expression} }}}}", name="lowre").reason == reason


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 is defined", True),
        ("gone is undefined", True),
        ("gone is none", True),
        ("none is none", True),
        ("0 is none", False),
        ("'a' is string", True),
        ("1 is number and 1.5 is number and true is not number", True),
        ("1 is integer and 1.0 is float", True),
        ("false is boolean and false is false and true is true", True),
        ("{} is mapping and [] is not mapping", True),
        ("[] is sequence and 1 is not sequence", True),
        ("[] is iterable and 1 is not iterable", True),
        ("1 is in [1]", True),
        ("1 is eq 1 and 1 is ne 2 and 1 is lt 2 and 2 is ge 2 and 1 is le 1 and 2 is gt 1", True),
        ("3 is odd and 4 is even and 6 is divisibleby 3", True),
        ("'abc' is startingwith 'a' and 'abc' is endingwith 'c'", True),
    ],
)
def test_a_test_says_what_a_value_is(expression: str, expected: bool) -> None:
    assert value(f"{{{{ {expression} }}}}") is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("range(3) | list", [0, 1, 2]),
        ("range(1, 7, 3) | list", [1, 4]),
        ("range(3, 0, -1) | list", [3, 2, 1]),
        ("dict({'a': 1}, b=2)", {"a": 1, "b": 2}),
        ("2.0 * (0.5 + rand())", 1.5),
        ("now().year", 2024),
    ],
)
def test_a_function_gives_its_value(expression: str, expected: object) -> None:
    assert value(f"{{{{ {expression} }}}}") == expected


def test_chance_is_drawn_anew_at_every_call() -> None:
    draws: Callable[[], float] = iter([0.1, 0.2]).__next__

    found = compile_template("{{ [rand(), rand()] }}").evaluate({}, Helpers(random=draws))

    assert found.value == [0.1, 0.2]
