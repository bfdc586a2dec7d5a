"""What holds for every template, every scope and every duration."""

import json
import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from shared.templates.durations import parse_duration
from shared.templates.expressions import (
    MISSING,
    Evaluation,
    EvaluationError,
    Helpers,
    Template,
    TemplateSyntaxProblem,
    compile_template,
    look_up,
)
from shared.templates.filters import FILTERS
from shared.templates.truth import StatusText, truthy

HELPERS = Helpers(now=datetime(2024, 1, 1, tzinfo=UTC), random=lambda: 0.25)
WORDS = ("a", "b", "c", "items", "keys", "__class__", "status")

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
data: st.SearchStrategy[object] = st.recursive(
    scalars | st.just(StatusText("success")) | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=10,
)
scopes: st.SearchStrategy[dict[str, object]] = st.dictionaries(st.sampled_from(WORDS), data, max_size=4)

SYMBOLS = "{{ }} {% %} {# #} ( ) [ ] { } . , : | ~ + - * / // % ** == != < > <= >= = ' 0 1 99999999999 1.5 1e999"
KEYWORDS = "and or not in is if else elif endif for endfor set endset macro endmacro filter endfilter raw endraw with"
NAMES = "endwith recursive namespace range dict rand now loop a b items __class__ 'x' '%s' '{}' '' none true default"
CALLS = "lower tojson int map sort sum join defined odd eq append format"
tokens = st.sampled_from([*f"{SYMBOLS} {KEYWORDS} {NAMES} {CALLS}".split(), "\n"])
soups = st.lists(tokens, max_size=20).map(" ".join)
atoms = st.sampled_from(["a", "b.c", "a.items", "b[0]", "c['a']", "1", "0", "2.5", "'x'", "none", "[a, 1]", "{'k': b}"])


NEEDING = {
    "batch": "batch(2, 0)",
    "get": "get('a.b')",
    "groupby": "groupby('a')",
    "rejectattr": "rejectattr('a')",
    "replace": "replace('x', 'yy')",
    "selectattr": "selectattr('a', 'odd')",
    "slice": "slice(2)",
}
filters = st.sampled_from([NEEDING.get(name, name) for name in sorted(FILTERS)])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    infix = st.sampled_from(["+", "-", "*", "/", "%", "~", "==", "<", "in", "and", "or", "**"])
    return (
        st.builds("({} {} {})".format, inner, infix, inner)
        | st.builds("({} | {})".format, inner, filters)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("({}).{}".format, inner, st.sampled_from(["a", "items()", "lower()", "split('x')", "count(1)"]))
        | st.builds("({}){}".format, inner, st.sampled_from(["[0]", "[-1]", "['a']", "[1:]", "[a]"]))
        | st.builds("(not {})".format, inner)
    )


expressions = st.recursive(atoms, _grown, max_leaves=6)
templates = (
    expressions.map("{{{{ {} }}}}".format)
    | expressions.map("x {{{{ {} }}}}".format)
    | st.builds("{{% for a in {} %}}{{{{ {} }}}}{{% endfor %}}".format, expressions, expressions)
)
steps = st.sampled_from([*WORDS, 0, 1, -1])


def compiled(text: str) -> Template | TemplateSyntaxProblem:
    try:
        return compile_template(text)
    except TemplateSyntaxProblem as problem:
        return problem


def outcome(text: str, scope: dict[str, object]) -> Evaluation | tuple[str, str]:
    """Evaluate a template; its failure is a value too."""
    try:
        return compile_template(text).evaluate(scope, HELPERS)
    except EvaluationError as error:
        return (error.reason, error.message)


@given(st.text() | st.text().map("{{{{ {} }}}}".format) | soups | soups.map("{{{{ {} }}}}".format), scopes)
def test_any_text_gives_a_value_or_one_of_two_errors(text: str, scope: dict[str, object]) -> None:
    template = compiled(text)

    if isinstance(template, TemplateSyntaxProblem):
        lines = re.split(r"\r\n|\r|\n", text)
        assert 1 <= template.line <= len(lines)
        assert 1 <= template.column <= max(1, len(lines[template.line - 1]))
    elif isinstance(found := outcome(text, scope), Evaluation):
        json.dumps(found.value, allow_nan=False)


@given(templates, scopes)
def test_any_expression_gives_json_or_an_error_and_always_the_same(text: str, scope: dict[str, object]) -> None:
    first, second = outcome(text, scope), outcome(text, scope)

    assert first == second
    if isinstance(first, Evaluation):
        json.dumps(first.value, allow_nan=False)
        assert len(first.missing) <= 20


@given(templates, scopes)
def test_evaluation_leaves_the_scope_as_it_was(text: str, scope: dict[str, object]) -> None:
    before = repr(scope)

    outcome(text, scope)

    assert repr(scope) == before


@given(st.lists(steps, max_size=4), scopes)
def test_a_pure_path_is_evaluated_as_any_other_expression(keys: list[str | int], scope: dict[str, object]) -> None:
    chain = "a" + "".join(f"[{key!r}]" for key in keys)
    path = compile_template(f"{{{{ {chain} }}}}").pure_path

    direct = outcome(f"{{{{ {chain} }}}}", scope)

    assert path == ("a", *keys)
    assert direct == outcome(f"{{{{ {chain} if true else 0 }}}}", scope)
    if isinstance(direct, Evaluation):
        assert (look_up(scope, path) is MISSING) == bool(direct.missing)


@given(
    st.sampled_from(["outcome", "output"]),
    st.sampled_from(["==", "!="]),
    st.sampled_from(["error", "success", "ok"]),
    st.sampled_from(["error", "success", "ok"]).map(StatusText),
)
def test_a_recognised_condition_says_what_evaluation_says(root: str, sign: str, word: str, status: str) -> None:
    template = compile_template(f"{{{{ {root}.status {sign} '{word}' }}}}")

    holds = template.evaluate({root: {"status": status}}).value

    assert template.condition == ("on_error" if holds is (status == "error") else "on_success")


@given(data | st.binary() | st.complex_numbers() | st.decimals() | st.sets(st.integers()))
def test_every_value_is_true_or_false(value: object) -> None:
    assert truthy(value) in (True, False)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_duration_written_in_parts_is_their_sum(days: int, hours: int, minutes: int, ms: int) -> None:
    seconds = days * 86_400 + hours * 3600 + minutes * 60

    assert parse_duration(f"{days}d{hours}h{minutes}m{ms}ms") == seconds + ms / 1000
    assert parse_duration(f"P{days}DT{hours}H{minutes}M") == seconds


@given(st.floats(0, 1e12, allow_nan=False).map(lambda number: round(number, 6)))
def test_a_number_of_seconds_is_read_back_as_written(seconds: float) -> None:
    written = f"{seconds:.6f}"

    assert parse_duration(seconds) == seconds
    assert parse_duration(written) == parse_duration(f"{written}s") == float(written)


@given(st.text() | data)
def test_a_duration_is_a_finite_number_or_refused(value: object) -> None:
    try:
        seconds = parse_duration(value)
    except ValueError:
        return
    assert 0 <= seconds < float("inf")
