"""From text to a syntax tree, or to a problem with its place and a hint."""

import re
from collections.abc import Collection
from typing import NoReturn

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from shared.templates.limits import MAX_NESTING, MAX_SOURCE, MAX_SYNTAX_DEPTH
from shared.templates.names import did_you_mean
from shared.templates.problems import TemplateSyntaxProblem

TAGS = ("for", "if", "set", "with", "macro", "filter", "raw")
_NEWLINE = re.compile(r"\r\n|\r|\n")
_QUOTED = re.compile(r"'([^']+)'")
_CHARACTER = re.compile(r"unexpected char .* at (\d+)$", re.DOTALL)
_OPENING = re.compile(r"\{[{%#]")
_TOO_DEEP = "the template nests too deeply"


class BoundedParser(Parser):
    """Jinja's parser, which counts how deeply it nests instead of relying on Python's stack."""

    nesting = 0

    def parse_unary(self, with_filter: bool = True) -> nodes.Expr:
        self._enter()
        parsed = super().parse_unary(with_filter)
        self.nesting -= 1
        return parsed

    def subparse(self, end_tokens: tuple[str, ...] | None = None) -> list[nodes.Node]:
        self._enter()
        parsed = super().subparse(end_tokens)
        self.nesting -= 1
        return parsed

    def _enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            token: Token = self.stream.current
            raise TemplateSyntaxError(_TOO_DEEP, token.lineno)


class Source:
    """A template's text, and the places in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def problem(self, message: str, line: int | None, needle: str = "", hint: str = "") -> TemplateSyntaxProblem:
        """Make a problem whose column is that of the needle in the line, or of the first tag there."""
        lines = _NEWLINE.split(self.text)
        line = min(max(1, line or 1), len(lines))
        content = lines[line - 1]
        column = content.find(needle) if needle else -1
        if column < 0:
            opening = _OPENING.search(content)
            column = opening.start() if opening else 0
        return TemplateSyntaxProblem(message, line, min(column + 1, max(1, len(content))), hint)

    def unknown(self, what: str, name: str, line: int, known: Collection[str]) -> NoReturn:
        """Refuse a name that is not in a list, and suggest the nearest that is."""
        raise self.problem(f"unknown {what} '{name[:80]}'", line, name, did_you_mean(name, known))

    def at_offset(self, message: str, offset: int) -> TemplateSyntaxProblem:
        """Make a problem at a character of the text."""
        before = _NEWLINE.split(self.text[:offset])
        line_length = len(_NEWLINE.split(self.text)[len(before) - 1])
        return TemplateSyntaxProblem(message, len(before), min(len(before[-1]) + 1, max(1, line_length)))


_environment = ImmutableSandboxedEnvironment(keep_trailing_newline=True)


def parse(source: Source) -> nodes.Template:
    """Parse a text, bounded in its size and depth."""
    if len(source.text) > MAX_SOURCE:
        raise TemplateSyntaxProblem(f"the template is longer than {MAX_SOURCE // 1024} KiB", 1, 1)
    try:
        tree = BoundedParser(_environment, source.text).parse()
    except TemplateSyntaxError as error:
        raise _explain(source, error) from None
    except (RecursionError, MemoryError):
        raise source.problem(_TOO_DEEP, 1) from None
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise source.problem(f"the template holds a value that is too large ({error})"[:200], 1) from None
    _check_depth(source, tree)
    return tree


def _check_depth(source: Source, tree: nodes.Template) -> None:
    level: list[nodes.Node] = [tree]
    for _ in range(MAX_SYNTAX_DEPTH):
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return
    raise source.problem(_TOO_DEEP, level[0].lineno)


def _explain(source: Source, error: TemplateSyntaxError) -> TemplateSyntaxProblem:
    message = (error.message or "the template cannot be read")[:400]
    if character := _CHARACTER.search(message):
        return source.at_offset("unexpected character", int(character[1]))
    quoted = _QUOTED.findall(message)
    if "unknown tag" in message:
        source.unknown("tag", quoted[0], error.lineno, TAGS)
    needle = quoted[-1] if quoted else ""
    hint = "a '{{' or '{%' is not closed" if "end of template" in message else ""
    return source.problem(message, error.lineno, needle, hint)
