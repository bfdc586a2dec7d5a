"""The filters a template may use: one table, and those that apply other filters to elements."""

from collections.abc import Callable, Mapping
from typing import Final

from shared.templates.access import parse_path, pluck
from shared.templates.checks import CHECKS
from shared.templates.filters_lists import LIST_FILTERS
from shared.templates.filters_numbers import NUMBER_FILTERS
from shared.templates.filters_text import TEXT_FILTERS
from shared.templates.names import did_you_mean, shown
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.sequences import check_length, elements
from shared.templates.undefined import Undefined

Filter = Callable[..., object]


def _default(run: Run, value: object, default_value: object = "", boolean: bool = False) -> object:
    if isinstance(value, Undefined):
        return default_value
    return default_value if boolean and not value else value


def _map(
    run: Run,
    value: object,
    name: object = None,
    *args: object,
    attribute: object = None,
    default: object = None,
    **kwargs: object,
) -> object:
    items = elements(run, value)
    check_length(run, len(items))
    run.charge(len(items))
    if name is None:
        path = parse_path(attribute)
        found = (pluck(run, item, path) for item in items)
        return [default if isinstance(item, Undefined) and default is not None else item for item in found]
    apply = _named(FILTERS, "filter", name)
    return [apply(run, item, *args, **kwargs) for item in items]


def _choosing(keep: bool, by_attribute: bool) -> Filter:
    def choose(run: Run, value: object, attribute: object, name: object, args: tuple[object, ...]) -> object:
        items = elements(run, value)
        check_length(run, len(items))
        run.charge(len(items))
        check = None if name is None else _named(CHECKS, "test", name)
        path = parse_path(attribute)

        def holds(item: object) -> bool:
            subject = pluck(run, item, path)
            return bool(subject) if check is None else bool(check(run, subject, *args))

        return [item for item in items if holds(item) is keep]

    def select(run: Run, value: object, name: object = None, *args: object) -> object:
        return choose(run, value, None, name, args)

    def select_attribute(run: Run, value: object, attribute: object, name: object = None, *args: object) -> object:
        return choose(run, value, attribute, name, args)

    return select_attribute if by_attribute else select


def _named(table: Mapping[str, Filter], what: str, name: object) -> Filter:
    if not isinstance(name, str) or name not in table:
        hint = did_you_mean(name, table) if isinstance(name, str) else ""
        raise OperationError("value", f"unknown {what} '{shown(name)}'" + (f", {hint}" if hint else ""))
    return table[name]


FILTERS: Final[dict[str, Filter]] = {
    **TEXT_FILTERS,
    **NUMBER_FILTERS,
    **LIST_FILTERS,
    "default": _default,
    "d": _default,
    "map": _map,
    "select": _choosing(keep=True, by_attribute=False),
    "reject": _choosing(keep=False, by_attribute=False),
    "selectattr": _choosing(keep=True, by_attribute=True),
    "rejectattr": _choosing(keep=False, by_attribute=True),
}
