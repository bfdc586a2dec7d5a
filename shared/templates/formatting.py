"""Formatting with %, str.format and strftime, where widths and fields are bounded."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from string import Formatter

from shared.templates.limits import MAX_TEXT
from shared.templates.plain import built, to_text
from shared.templates.problems import OperationError, Reason, over_limit
from shared.templates.run import Run
from shared.templates.undefined import Undefined

_MAX_WIDTH = 1000
_MAX_FIELDS = 1000
_PERCENT = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[#0\- +]*)(?P<width>\d*)(?P<dot>\.?)(?P<precision>\d*)(?P<type>.)",
    re.DOTALL,
)
_NUMERIC = frozenset("diouxXeEfFgGc")
_SPEC = re.compile(r"(?:.?[<>=^])?[ +\-]?z?#?0?(?P<width>\d*)[,_]?(?:\.(?P<precision>\d+))?[bcdeEfFgGosxX%]?")
_DATE_CODES = frozenset("aAbBdejfGHIjmMpSTuUVwWyYzZFDR%-")


def percent_format(run: Run, template: str, values: object) -> str:
    """Format as `template % values` does, with widths up to 1000 and no %r."""
    given = values if isinstance(values, tuple | list) else (values,)
    position = size = 0

    def convert(found: re.Match[str]) -> str:
        nonlocal position, size
        kind = found["type"]
        if kind == "%":
            return "%"
        _check_width(found["width"], found["precision"])
        if found["key"] is not None:
            value = values.get(found["key"]) if isinstance(values, Mapping) else None
        elif position < len(given):
            value = given[position]
            position += 1
        else:
            raise OperationError("value", "the format has more places than there are values")
        spec = "%" + found["flags"] + found["width"] + found["dot"] + found["precision"] + kind
        piece: str = spec % (_operand(run, kind, value),)
        size = _grown(size, piece)
        return piece

    return built(run, _PERCENT.sub(convert, _bounded_template(run, template, "%")))


def brace_format(run: Run, template: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    """Format as `template.format(…)` does, without attributes, indexes, conversions and nested fields."""
    pieces: list[str] = []
    size = 0
    automatic = 0
    for literal, field, spec, conversion in Formatter().parse(_bounded_template(run, template, "{")):
        pieces.append(literal)
        if field is not None:
            if conversion or "{" in (spec or ""):
                raise OperationError("sandbox", "conversions and nested fields cannot be used in format()")
            name = field or str(automatic)
            automatic += not field
            pieces.append(_format_field(run, _argument(name, args, kwargs), spec or ""))
            size = _grown(size, pieces[-1])
    return built(run, "".join(pieces))


def format_date(run: Run, value: date, pattern: str) -> str:
    """Format as strftime does, with the codes that do not depend on the machine."""
    codes = re.findall(r"%(-?.?)", pattern, re.DOTALL)
    if len(pattern) > _MAX_WIDTH or any(not set(code) <= _DATE_CODES or code in ("", "-") for code in codes):
        raise OperationError("value", "strftime takes plain codes such as %Y-%m-%dT%H:%M:%S")
    run.charge(1)
    return value.strftime(pattern)


def _format_field(run: Run, value: object, spec: str) -> str:
    if not spec:
        return to_text(run, value)
    if isinstance(value, datetime | date):
        return format_date(run, value, spec)
    found = _SPEC.fullmatch(spec)
    if not found:
        raise OperationError("value", f"'{spec[:40]}' is no format that a template can use")
    _check_width(found["width"], found["precision"])
    return format(value if isinstance(value, int | float) else to_text(run, value), spec)


def _argument(name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    if name.isdecimal() and len(name) < 6:
        if int(name) < len(args):
            return args[int(name)]
        raise OperationError("value", "the format has more places than there are values")
    if name in kwargs:
        return kwargs[name]
    reason: Reason = "sandbox" if "." in name or "[" in name else "value"
    raise OperationError(reason, f"format() has no value called '{name[:40]}'")


def _operand(run: Run, kind: str, value: object) -> object:
    if isinstance(value, Undefined):
        value.touch()
    if kind == "s":
        return to_text(run, value)
    if kind not in _NUMERIC:
        raise OperationError("value", f"'%{kind}' is no format that a template can use")
    if not isinstance(value, int | float | str):
        raise OperationError("type", f"'%{kind}' needs a number")
    return value


def _check_width(*widths: str | None) -> None:
    if any(width and (len(width) > 4 or int(width) > _MAX_WIDTH) for width in widths):
        raise over_limit(f"it formats wider than {_MAX_WIDTH} characters")


def _bounded_template(run: Run, template: str, sign: str) -> str:
    places = template.count(sign)
    if places > _MAX_FIELDS:
        raise over_limit(f"it formats more than {_MAX_FIELDS} places")
    run.charge(1 + places + (len(template) >> 6))
    return template


def _grown(size: int, piece: str) -> int:
    size += len(piece)
    if size > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    return size
