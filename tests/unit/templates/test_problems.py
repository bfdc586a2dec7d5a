"""A text that is no template says where, what, and what was probably meant."""

import pytest

from tests.unit.templates.evaluating import problem


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("{{ a | lowre }}", 1, 8, "unknown filter 'lowre'", "did you mean 'lower'?"),
        ("{{ a is defned }}", 1, 9, "unknown test 'defned'", "did you mean 'defined'?"),
        ("{{ rnage(3) }}", 1, 4, "unknown function 'rnage'", "did you mean 'range'?"),
        ("{% fro x in y %}", 1, 4, "unknown tag 'fro'", "did you mean 'for'?"),
        ("{{ xs | map('lowre') }}", 1, 14, "unknown filter 'lowre'", "did you mean 'lower'?"),
        ("{{ xs | select('ood') }}", 1, 17, "unknown test 'ood'", "did you mean 'odd'?"),
        ("{{ xs | selectattr('a', 'ood') }}", 1, 26, "unknown test 'ood'", "did you mean 'odd'?"),
        ("{{ lipsum() }}", 1, 4, "unknown function 'lipsum'", ""),
        ("{{ a | attr('b') }}", 1, 8, "unknown filter 'attr'", ""),
        ("a\n\n  {{ b | zzz }}", 3, 10, "unknown filter 'zzz'", ""),
        ("{{ a", 1, 1, "unexpected end of template", "not closed"),
        ("{{ a b }}", 1, 6, "expected token 'end of print statement', got 'b'", ""),
        ("ok\n{{ a $ b }}", 2, 6, "unexpected character", ""),
        ("{% if a %}", 1, 4, "Unexpected end of template", ""),
        ("{{ }}", 1, 1, "Expected an expression", ""),
        ("{{ a | replace('x') }}", 1, 8, "filter 'replace': missing a required argument: 'new'", ""),
        ("{{ a | lower(x=1) }}", 1, 8, "filter 'lower': got an unexpected keyword argument 'x'", ""),
        ("{{ rand(1) }}", 1, 4, "function 'rand': too many positional arguments", ""),
        ("{{ (a | first)() }}", 1, 1, "only functions and methods can be called", ""),
        ("{% include 'x' %}", 1, 4, "'include' cannot be used in a playbook", "available are for, if"),
        ("{% import 'x' as y %}", 1, 4, "'import' cannot be used", ""),
        ("{% from 'x' import y %}", 1, 4, "'from' cannot be used", ""),
        ("{% extends 'x' %}", 1, 4, "'extends' cannot be used", ""),
        ("{% block b %}{% endblock %}", 1, 4, "'block' cannot be used", ""),
        ("{% autoescape true %}{% endautoescape %}", 1, 4, "'autoescape' cannot be used", ""),
        ("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", 1, 33, "'call' cannot be used", ""),
        ("{{ m(**a) }}", 1, 6, "arguments cannot be unpacked", ""),
    ],
)
def test_a_problem_has_its_place_and_a_hint(text: str, line: int, column: int, message: str, hint: str) -> None:
    found = problem(text)

    assert (found.line, found.column) == (line, column)
    assert message in found.message
    assert hint in found.hint
    assert found.message in str(found)


@pytest.mark.parametrize("text", ["{{", "\n{{", "{% ", "{{ 'a }}", "{{ a }}\r\n{{ b"])
def test_a_place_is_always_inside_the_text(text: str) -> None:
    found = problem(text)
    lines = text.replace("\r\n", "\n").split("\n")

    assert 1 <= found.line <= len(lines)
    assert 1 <= found.column <= max(1, len(lines[found.line - 1]))
