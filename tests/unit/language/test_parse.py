"""YAML is read as version 1.2 says, every value knows its place, and nothing but a diagnostic comes of bad input."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from shared.language import parse as parsing
from shared.language.compile import compile_playbook
from shared.language.diagnostics import Diagnostic, Report
from shared.language.nodes import Mapping, Node, Scalar, Sequence, plain
from shared.language.parse import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse
from shared.language.place import Place

QUOTE_HINT = 'put a template in quotes: "{{ … }}"'


def read(source: str | bytes) -> Node:
    report = Report("playbook.yaml")
    node = parse(source, report)
    assert report.diagnostics() == ()
    assert node is not None
    return node


def problems(source: str | bytes) -> list[Diagnostic]:
    report = Report("playbook.yaml")
    parse(source, report)
    return list(report.diagnostics())


def problem(source: str | bytes) -> Diagnostic:
    (item,) = problems(source)
    return item


def at(item: Diagnostic) -> tuple[str, int, int]:
    return item.code, item.line, item.column


def value_at(node: Node, *path: str | int) -> Node:
    for key in path:
        if isinstance(key, int):
            assert isinstance(node, Sequence)
            node = node.items[key]
        else:
            assert isinstance(node, Mapping)
            inner = node.get(key)
            assert inner is not None
            node = inner
    return node


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("NO", "NO"),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("none", "none"),
        ("None", "None"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0123", 123),
        ("0x1F", 31),
        ("0o17", 15),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e3", -1000.0),
        ("1e", "1e"),
        (".", "."),
        ("1.2.3", "1.2.3"),
        ("500ms", "500ms"),
        ("5%", "5%"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ('"\\u00e9\\n"', "é\n"),
        ("9223372036854775807", 9223372036854775807),
        ("-9223372036854775808", -9223372036854775808),
        ("é", "é"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(written: str, value: object) -> None:
    node = value_at(read(f"key: {written}\n"), "key")

    assert isinstance(node, Scalar)
    assert node.value == value
    assert type(node.value) is type(value)


@pytest.mark.parametrize(
    ("written", "key"),
    [("on", "on"), ("yes", "yes"), ("1", "1"), ("1.0", "1.0"), ("1e3", "1e3"), ("0x10", "0x10"), ("true", "true"),
     ("~", "~"), ("null", "null"), ("2024-01-01", "2024-01-01"), ("'a b'", "a b"), ("99999999999999999999", "9" * 20)],
)  # fmt: skip
def test_a_key_is_the_text_that_is_written(written: str, key: str) -> None:
    node = read(f"{written}: value\n")

    assert plain(node) == {key: "value"}


def test_a_block_text_is_known_as_one_and_keeps_its_lines() -> None:
    node = value_at(read("code: |\n  def main():\n    return 1\n"), "code")

    assert node == Scalar("def main():\n  return 1\n", Place(1, 7), block=True, indent=2)


def test_every_value_knows_its_line_and_column() -> None:
    node = read("a: 1\nlist:\n  - x\n  - {k: 'v w'}\ndeep:\n    inner: |\n      text\n")

    places = [
        value_at(node, *path).place
        for path in (("a",), ("list",), ("list", 0), ("list", 1), ("list", 1, "k"), ("deep",), ("deep", "inner"))
    ]
    assert [(place.line, place.column) for place in places] == [
        (1, 4), (3, 3), (3, 5), (4, 5), (4, 9), (6, 5), (6, 12),
    ]  # fmt: skip
    assert [place.width for place in places] == [1, 1, 1, 1, 5, 1, 1]


def test_every_key_knows_its_line_and_column() -> None:
    node = read("first: 1\n'second key': 2\n")

    assert isinstance(node, Mapping)
    assert [entry.place for entry in node.entries] == [Place(1, 1, 5), Place(2, 1, 12)]


@pytest.mark.parametrize(
    ("before", "line", "column"),
    [
        ("é: [1, 2]\n", 2, 6),
        ("😀: 😀\n", 2, 6),
        ("# a comment\r\n\r\n", 3, 6),
        ("a: 1\x85", 2, 6),
        ("a: 1\u2028", 2, 6),
        ("\ufeff", 1, 6),
    ],
)
def test_places_count_characters_and_the_line_ends_of_yaml(before: str, line: int, column: int) -> None:
    node = value_at(read(before + "key: value"), "key")

    assert (node.place.line, node.place.column) == (line, column)


def test_bytes_and_text_of_one_document_read_the_same() -> None:
    text = "\ufeffé: ['ü', 😀]\n"

    assert read(text.encode("utf-8")) == read(text)


def test_an_alias_stands_for_its_anchor() -> None:
    node = read("base: &b {x: 1}\ncopy: *b\n")

    assert plain(node) == {"base": {"x": 1}, "copy": {"x": 1}}


def test_an_anchor_may_be_given_anew() -> None:
    assert plain(read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")) == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_a_merge_takes_over_keys_and_what_is_written_here_wins() -> None:
    node = read("base: &b {x: 1, y: 2}\ncopy:\n  y: 3\n  <<: *b\n  z: 4\n")

    assert plain(value_at(node, "copy")) == {"y": 3, "z": 4, "x": 1}


def test_of_several_merged_mappings_the_first_wins() -> None:
    node = read("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}\n")

    assert plain(value_at(node, "c")) == {"x": 1, "y": 2}


def test_a_merge_of_anything_else_is_an_error() -> None:
    assert at(problem("a: &a [1]\nb:\n  <<: *a\n")) == ("merge", 3, 3)
    assert at(problem("b:\n  <<: 5\n")) == ("merge", 2, 3)


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert plain(read("'<<': 5\n")) == {"<<": 5}


def test_an_alias_of_nothing_is_an_error() -> None:
    assert at(problem("a: *nobody\n")) == ("unknown-anchor", 1, 4)


def test_an_alias_cannot_contain_itself() -> None:
    assert at(problem("a: &a [*a]\n")) == ("unknown-anchor", 1, 8)


def test_a_key_written_twice_is_an_error_that_names_the_first() -> None:
    item = problem("a: 1\nb: 2\na: 3\n")

    assert at(item) == ("duplicate-key", 3, 1)
    assert item.message == "the key 'a' is written twice"
    assert item.hint == "it is first written in line 1"


def test_every_duplicate_is_reported() -> None:
    assert [at(item) for item in problems("a: 1\na: 2\nb: {c: 1, c: 2}\n")] == [
        ("duplicate-key", 2, 1),
        ("duplicate-key", 3, 11),
    ]


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("a: !secret x\n", 1, 4),
        ("a: !!int '5'\n", 1, 4),
        ("a: !!python/object:os.system {}\n", 1, 4),
        ("a: !!binary aGk=\n", 1, 4),
        ("- !!set {a, b}\n", 1, 3),
    ],
)
def test_a_tag_is_an_error(source: str, line: int, column: int) -> None:
    assert at(problem(source)) == ("yaml-tag", line, column)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("9223372036854775808", "the number does not fit in 64 bits"),
        ("-9223372036854775809", "the number does not fit in 64 bits"),
        ("1" * 100_000, "the number does not fit in 64 bits"),
        ("0x" + "f" * 16, "the number does not fit in 64 bits"),
        ("0o" + "7" * 5_000, "the number does not fit in 64 bits"),
        ("1e400", "the number is too large or too long"),
        ("-1e400", "the number is too large or too long"),
        ("0." + "1" * 100_000, "the number is too large or too long"),
        (".inf", "infinity and NaN are no values of a playbook"),
        ("-.Inf", "infinity and NaN are no values of a playbook"),
        (".NaN", "infinity and NaN are no values of a playbook"),
    ],
)
def test_a_number_without_a_value_of_its_own_is_an_error(written: str, message: str) -> None:
    item = problem(f"key: {written}\n")

    assert at(item) == ("number-range", 1, 6)
    assert item.message == message


@pytest.mark.parametrize(
    "source",
    ["", "\n\n", "# only a comment\n", "---\n", "--- \n...\n", "null\n", "~", "\ufeff", b"", b"\xef\xbb\xbf"],
)
def test_an_empty_document_says_how_to_begin(source: str | bytes) -> None:
    item = problem(source)

    assert at(item) == ("empty", 1, 1)
    assert item.hint == "a playbook begins with 'apiVersion: redrive.io/v1'"


def test_a_second_document_is_an_error() -> None:
    assert at(problem("a: 1\n---\nb: 2\n")) == ("many-documents", 2, 1)


def test_a_thousand_documents_are_one_error() -> None:
    assert at(problem("a: 1\n---\n" * 1000)) == ("many-documents", 2, 1)


@pytest.mark.parametrize(
    ("source", "place"),
    [("a:\n\tb: 1\n", (2, 1)), ("a:\n  - x\n\t- y\n", (3, 1)), ("\ta: 1\n", (1, 1))],
)
def test_a_tab_as_indentation_is_named(source: str, place: tuple[int, int]) -> None:
    item = problem(source)

    assert at(item) == ("yaml-syntax", *place)
    assert item.hint == "indent with spaces, not with tabs"


@pytest.mark.parametrize(
    ("source", "place", "byte"),
    [
        (b"a: \xff\n", (1, 4), "0xff"),
        ("é: 1\nü: ".encode() + b"\xc3(", (2, 4), "0xc3"),
        (b"\xfe\xff\x00a", (1, 1), "0xfe"),
        (b"a: 1\nb: \xed\xa0\x80", (2, 4), "0xed"),
    ],
)
def test_bytes_that_are_not_utf8_are_named_with_their_place(source: bytes, place: tuple[int, int], byte: str) -> None:
    item = problem(source)

    assert at(item) == ("not-utf8", *place)
    assert item.message == f"byte {byte} is not UTF-8"


def test_half_a_surrogate_pair_is_an_error() -> None:
    assert at(problem("a: 1\nb: \ud800\n")) == ("not-utf8", 2, 4)


@pytest.mark.parametrize(
    ("source", "place", "character"),
    [
        ("a: \x00\n", (1, 4), "U+0000"),
        ("é: 1\nb: x\x07y\n", (2, 5), "U+0007"),
        ("\x1b[31m", (1, 1), "U+001B"),
        ("a: \ufffe", (1, 4), "U+FFFE"),
    ],
)
def test_a_control_character_is_named_with_its_place(source: str, place: tuple[int, int], character: str) -> None:
    item = problem(source)

    assert at(item) == ("control-character", *place)
    assert item.message == f"the character {character} cannot stand in YAML"


def test_an_escaped_nul_is_an_error_too_because_no_store_keeps_it() -> None:
    item = problem('a: "x\\0y"\n')

    assert at(item) == ("control-character", 1, 4)
    assert item.message == "the character U+0000 cannot be stored"


def test_an_escaped_control_character_is_a_value() -> None:
    assert plain(read('a: "\\e[31m"\n')) == {"a": "\x1b[31m"}


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("a: {{ x }}\n", [(1, 4)]),
        ("a: {{ x }}\nb:\n  - {{ y }}\n", [(1, 4), (3, 5)]),
        ("a: {{ x.y | default(2) }}\n", [(1, 4)]),
    ],
)
def test_templates_without_quotes_are_each_named_and_reading_goes_on(
    source: str, places: list[tuple[int, int]]
) -> None:
    found = problems(source)

    assert [at(item) for item in found] == [("unquoted-template", *place) for place in places]
    assert {item.hint for item in found} == {QUOTE_HINT}


def test_a_template_without_quotes_is_read_as_it_was_meant() -> None:
    node = parse("a: {{ x }}\nb: 1\n", Report("playbook.yaml"))

    assert node is not None
    assert plain(node) == {"a": "{{ x }}", "b": 1}


@pytest.mark.parametrize("source", ["a: {{ x }}/path\n", "- {{ x }} and more\n", "a: {% if x %}y{% endif %}\n"])
def test_text_around_a_template_without_quotes_gets_the_same_hint(source: str) -> None:
    assert problems(source)[-1].code == "yaml-syntax"
    assert {item.hint for item in problems(source)} == {QUOTE_HINT}


@pytest.mark.parametrize(
    ("source", "place", "hint"),
    [
        ("a: b: c\n", (1, 5), "put a text that contains ': ' in quotes"),
        ("a: @x\n", (1, 4), "put a text that begins with '@' in quotes"),
        ("a: `x`\n", (1, 4), "put a text that begins with '`' in quotes"),
        ("a: [1, 2\n", (1, 9), None),
        ("a: [1,\n\n\n", (1, 7), None),
        ("a: 'never closed\n", (1, 17), None),
        ("a: [", (1, 5), None),
        ("a: 1\n b: 2\n", (2, 3), None),
    ],
)
def test_broken_yaml_is_one_error_where_it_breaks(source: str, place: tuple[int, int], hint: str | None) -> None:
    item = problem(source)

    assert at(item) == ("yaml-syntax", *place)
    assert item.message.startswith("this is no YAML: ")
    assert item.hint == hint


def test_a_list_as_a_key_is_an_error() -> None:
    assert at(problem("? [a, b]\n: 1\n")) == ("key-not-text", 1, 3)


def test_a_text_beyond_the_limit_is_not_even_read() -> None:
    item = problem("a: " + "x" * (10 * 1024 * 1024))

    assert at(item) == ("too-large", 1, 1)
    assert item.message == "the text is 10.0 MiB; the limit is 2 MiB"


def test_a_text_at_the_limit_is_read() -> None:
    text = "a: " + "x" * (MAX_BYTES - 3)

    assert plain(read(text)) == {"a": "x" * (MAX_BYTES - 3)}


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_an_error_and_not_a_crash(opening: str) -> None:
    item = problem(opening * 100_000)

    assert item.code == "too-deep"
    assert item.message == f"nested deeper than {MAX_DEPTH} levels"


def test_nesting_up_to_the_limit_is_read() -> None:
    node = read("[" * MAX_DEPTH + "]" * MAX_DEPTH)

    assert node.depth == MAX_DEPTH


def test_depth_counts_through_chains_of_aliases() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 1000))]

    item = problem("\n".join(lines))

    assert at(item)[0] == "too-deep"
    assert item.line < 100


def test_depth_counts_through_merges() -> None:
    lines = ["a0: &a0 {k: x}", *(f"a{n}: &a{n} {{k: {{<<: *a{n - 1}}}}}" for n in range(1, 1000))]

    assert problem("\n".join(lines)).code == "too-deep"


def test_a_bomb_of_aliases_is_defused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    item = problem("\n".join(lines))

    assert item.code == "too-many-values"
    assert item.message == f"the document expands to more than {MAX_NODES:,} values"
    assert item.hint == "aliases count each time they are used"


def test_a_bomb_of_merges_is_defused() -> None:
    keys = ", ".join(f"k{n}: 1" for n in range(1000))
    copies = "\n".join(f"c{n}: {{<<: *base}}" for n in range(1000))

    assert problem(f"base: &base {{{keys}}}\n{copies}\n").code == "too-many-values"


def calls_during(work: Callable[[], object]) -> int:
    """Count the calls of Python functions, which say how much work is done on any machine."""
    count = 0

    def count_calls(frame: object, event: str, arg: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "workload:\n" + "".join(f"  k{i}: {i}\n" for i in range(n)) + "workflow: [{step: a}]\n",
        lambda n: "".join(f"unknown{i}: {i}\n" for i in range(n)) + "workflow: [{step: a}]\n",
        lambda n: "workflow:\n" + "".join(f"- {{step: s{i}, next: s{i + 1}}}\n" for i in range(n)),
        lambda n: "workflow: [{step: a, tool: {kind: noop, eval: [" + "{expr: true, do: fail}, " * n + "]}}]\n",
        lambda n: "workflow: [{step: a, tool: [" + "".join(
            f"{{name: t{i}, kind: noop, eval: [{{expr: '{{{{ x }}}}', do: jump, to: t0}}]}}, " for i in range(n)
        ) + "]}]\n",
        lambda n: "workflow: [{step: a, tool: {kind: noop, set: {" + "".join(
            f"k{i}: {i}, " for i in range(n)
        ) + "}}}]\n",
    ],
    ids=["a wide mapping", "unknown keys", "steps", "rules", "tasks", "assignments"],
)  # fmt: skip
def test_work_grows_with_the_text_and_not_with_its_square(make: Callable[[int], str]) -> None:
    small, large = make(500), make(2000)
    compile_playbook(large), compile_playbook(small)

    ratio = calls_during(lambda: compile_playbook(large)) / calls_during(lambda: compile_playbook(small))

    assert ratio < 6


def test_a_mapping_of_a_hundred_thousand_keys_compiles() -> None:
    text = "workload:\n" + "".join(f"  k{n}: {n}\n" for n in range(99_000)) + "workflow: [{step: a}]\n"

    assert compile_playbook(text).ok


def test_the_slower_parser_of_python_gives_the_same_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'b', {c: |\n  d\n}]\ne: *x\n".replace("{c: |\n  d\n}", "{c: 'd'}") + "f: |\n  g\n  h\n"
    fast = read(text)
    monkeypatch.setattr(parsing, "_LOADER", yaml.SafeLoader)

    assert read(text) == fast


@pytest.mark.parametrize("source", ["a: [1,", "a: {{ x }}", "\ta: 1", "a: !x y", "[" * 1000, "a: 1\na: 2"])
def test_the_slower_parser_of_python_gives_the_same_codes(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = [item.code for item in problems(source)]
    monkeypatch.setattr(parsing, "_LOADER", yaml.SafeLoader)

    assert [item.code for item in problems(source)] == fast


def test_a_mapping_gives_the_first_of_the_names_that_is_there() -> None:
    node: Any = read("b: 2\na: 1\n")

    assert node.get("x", "a", "b").value == 1
    assert node.entry("b", "a").key == "b"
    assert node.get("x") is None
    assert list(node.keys()) == ["b", "a"]
