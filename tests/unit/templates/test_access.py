"""Reading members: keys first, few attributes, few methods, nothing internal."""

from collections import UserDict
from datetime import UTC, date, datetime

import pytest

from shared.templates.expressions import MISSING, Listed, look_up
from tests.unit.templates.evaluating import evaluate, failure, value


class Secret:
    """An object that holds what no template may read."""

    def __init__(self) -> None:
        self.password = "hunter2"

    def reveal(self) -> str:
        return self.password


@pytest.mark.parametrize("name", ["items", "keys", "get", "values", "pop", "update", "copy", "__class__", "_ref"])
def test_a_key_is_read_before_any_attribute(name: str) -> None:
    assert value(f"{{{{ start.{name} }}}}", start={name: 5}) == 5
    assert value(f"{{{{ start['{name}'] }}}}", start=UserDict({name: 5})) == 5


@pytest.mark.parametrize("name", ["items", "pop", "update", "_ref", "missing"])
def test_a_mapping_without_the_key_has_no_such_member(name: str) -> None:
    found = evaluate(f"{{{{ start.{name} }}}}", start={})

    assert (found.value, found.missing) == (None, (f"start.{name}",))


def test_a_method_is_called_where_no_key_has_its_name() -> None:
    assert value("{{ d.items() }}", d={"a": 1}) == [["a", 1]]
    assert failure("{{ d.items() }}", d={"items": 1}).reason == "type"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ xs[0] }}", "a"),
        ("{{ xs[-1] }}", "c"),
        ("{{ xs.1 }}", "b"),
        ("{{ xs[9] }}", None),
        ("{{ xs['a'] }}", None),
        ("{{ xs[true] }}", None),
        ("{{ xs[n] }}", "b"),
        ("{{ d[k] }}", 1),
        ("{{ d[xs] }}", None),
        ("{{ 'abc'[1] }}", "b"),
        ("{{ n.a }}", None),
        ("{{ xs.count }}", None),
        ("{{ t.year }}", 2024),
        ("{{ t.hour }}", 3),
        ("{{ day.month }}", 1),
    ],
)
def test_elements_are_read_by_position_or_key(text: str, expected: object) -> None:
    moment = datetime(2024, 1, 2, 3, tzinfo=UTC)
    scope = {"xs": ["a", "b", "c"], "n": 1, "d": {"x": 1}, "k": "x", "t": moment, "day": date(2024, 1, 2)}

    assert value(text, **scope) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ' Ab '.strip().lower() }}", "ab"),
        ("{{ 'a,b'.split(',') }}", ["a", "b"]),
        ("{{ 'a b c'.rsplit(' ', 1) }}", ["a b", "c"]),
        ("{{ 'a\nb'.splitlines() }}", ["a", "b"]),
        ("{{ 'abc'.startswith('ab') }}", True),
        ("{{ 'abc'.endswith('x') }}", False),
        ("{{ 'aXa'.replace('X', '-', 1) }}", "a-a"),
        ("{{ ','.join(['a', 1]) }}", "a,1"),
        ("{{ 'a b'.title() }}", "A B"),
        ("{{ 'abc'.find('c') + 'aa'.count('a') }}", 4),
        ("{{ '12'.isdigit() and 'a'.isalpha() }}", True),
        ("{{ '7'.zfill(3) ~ 'a'.ljust(3, '.') ~ 'b'.rjust(3) ~ 'c'.center(3) }}", "007a..  b c "),
        ("{{ 'v1'.removeprefix('v').removesuffix('1') }}", ""),
        ("{{ '{} {0} {x:>3} {y:%Y} {{}}'.format('a', x=1, y=now()) }}", "a a   1 2024 {}"),
        ("{{ {'a': 1}.get('a') }}", 1),
        ("{{ {'a': 1}.get('b', 2) }}", 2),
        ("{{ {'a': 1}.keys() }}", ["a"]),
        ("{{ {'a': 1}.values() }}", [1]),
        ("{{ [1, 2, 2].count(2) + [5, 6].index(6) }}", 3),
        ("{{ now().isoformat() }}", "2024-05-06T07:08:09+00:00"),
        ("{{ now().strftime('%Y/%m/%d %H:%M:%S') }}", "2024/05/06 07:08:09"),
        ("{{ now().timestamp() }}", 1714979289.0),
        ("{{ now().date() }}", "2024-05-06"),
        ("{{ now().weekday() + now().isoweekday() }}", 1),
        ("{{ (now() - now()).total_seconds() }}", 0.0),
    ],
)
def test_listed_methods_can_be_called(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ {}.__class__ }}",
        "{{ [].__class__.__mro__ }}",
        "{{ gone.__class__ }}",
        "{{ (1).__class__ }}",
        "{{ ''.__class__() }}",
        "{{ ''.format_map({}) }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{0[a]}'.format({'a': 1}) }}",
        "{{ '{!r}'.format(1) }}",
        "{{ '{:{}}'.format(1, 5) }}",
        "{{ ''.encode() }}",
        "{{ ''.encode }}",
        "{{ 'abc'.translate({}) }}",
        "{{ (1).bit_length() }}",
        "{{ (1).real }}",
        "{{ [].append(1) }}",
        "{{ {}.update({}) }}",
        "{{ {}.pop('a') }}",
        "{{ secret.reveal() }}",
        "{{ secret.reveal }}",
        "{{ secret.__dict__ }}",
        "{{ now().replace(year=1) }}",
        "{{ now().tzinfo }}",
        "{% for x in [1] %}{{ loop.__init__ }}{% endfor %}",
        "{% for x in [1] %}{{ loop._run }}{% endfor %}",
        "{% macro m() %}{% endmacro %}{{ m.frames }}",
        "{{ ['a'] | map(attribute='__class__') | list }}",
        "{{ ['a'] | selectattr('__class__') }}",
        "{{ ['a'] | sort(attribute='__class__') }}",
        "{{ [['a']] | get('0.__class__') }}",
    ],
)
def test_nothing_else_can_be_reached(text: str) -> None:
    assert failure(text, secret=Secret()).reason == "sandbox"


def test_a_strange_object_shows_nothing_of_itself() -> None:
    assert value("{{ secret.password }}", secret=Secret()) is None
    assert failure("{{ secret }}", secret=Secret()).reason == "value"


@pytest.mark.parametrize("code", ["%s", "%c", "%999999Y", "%", "%Ey", "%-"])
def test_a_date_is_formatted_only_by_codes_that_mean_the_same_everywhere(code: str) -> None:
    assert failure("{{ now().strftime(code) }}", code=code).reason == "value"


def test_a_text_that_has_no_such_method_says_which_it_has() -> None:
    assert "did you mean 'startswith'?" in failure("{{ 'a'.startwith('a') }}").message


def test_paths_are_looked_up_as_templates_do() -> None:
    scope = {"a": {"items": [{"b": 1}], "none": None}, "t": datetime(2024, 1, 1, tzinfo=UTC)}

    assert look_up(scope, ("a", "items", 0, "b")) == 1
    assert look_up(scope, ("a", "items", -1, "b")) == 1
    assert look_up(scope, ("a", "none")) is None
    assert look_up(scope, ("t", "year")) == 2024
    assert look_up(scope, ("a", "none", "x")) is MISSING
    assert look_up(scope, ("a", "items", 5)) is MISSING
    assert look_up(scope, ("gone", "x")) is MISSING
    assert look_up(scope, ("a", "__class__")) is MISSING


def test_a_list_may_have_named_values_beside_its_elements() -> None:
    found = Listed([1, 2], {"stats": {"total": 2}})

    assert value("{{ (work | length) + work.stats.total + work[1] }}", work=found) == 6
    assert value("{{ work }}", work=found) == [1, 2]
    assert type(value("{{ work }}", work=found)) is list
    assert evaluate("{{ work.other }}", work=found).missing == ("work.other",)
    assert failure("{{ work.beside }}", work=found).reason == "sandbox"
