"""Filters that work on lists and mappings; all give lists, none is lazy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from shared.templates.access import Group, parse_path, pluck
from shared.templates.limits import MAX_LIST
from shared.templates.names import Path
from shared.templates.operators import arithmetic
from shared.templates.plain import json_text
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run
from shared.templates.sequences import check_length, elements, one_kind, sort_key
from shared.templates.undefined import Undefined

_add = arithmetic("+")


def mapping_of(name: str, value: object) -> Mapping[object, object]:
    """Read the input of a filter on mappings; null and undefined are empty."""
    if isinstance(value, Undefined):
        value.touch()
        return {}
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OperationError("type", f"{name} needs a mapping, not {type(value).__name__}")
    return value


def _list(run: Run, value: object) -> object:
    items = elements(run, value)
    check_length(run, len(items))
    return list(items)


def _length(run: Run, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, str | list | tuple | range | Mapping | Sequence | set | frozenset | Undefined):
        return len(value)
    raise OperationError("type", f"a value of type {type(value).__name__} has no length")


def _first(run: Run, value: object) -> object:
    items = value if isinstance(value, str | list | tuple) else elements(run, value)
    return items[0] if items else run.undefined("first")


def _last(run: Run, value: object) -> object:
    items = value if isinstance(value, str | list | tuple) else elements(run, value)
    return items[-1] if items else run.undefined("last")


def _reverse(run: Run, value: object) -> object:
    if isinstance(value, str):
        return "".join(reversed([str(char) for char in elements(run, value)]))
    items = elements(run, value)
    check_length(run, len(items))
    return list(reversed(items))


def _sort(
    run: Run, value: object, reverse: bool = False, case_sensitive: bool = False, attribute: object = None
) -> object:
    return _sorted(run, elements(run, value), attribute, bool(reverse), bool(case_sensitive))


def _sorted(run: Run, items: Sequence[object], attribute: object, reverse: bool, case_sensitive: bool) -> list[object]:
    paths = _paths(attribute)
    keyed = [
        (tuple(sort_key(run, pluck(run, item, path), case_sensitive) for path in paths), item)
        for item in _each(run, items)
    ]
    for column in zip(*(keys for keys, _ in keyed), strict=True):
        one_kind(column)
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0], reverse=reverse)]


def _paths(attribute: object) -> list[Path]:
    names = attribute.split(",", 8) if isinstance(attribute, str) else [attribute]
    return [parse_path(name) for name in names]


def _each(run: Run, items: Sequence[object]) -> Sequence[object]:
    check_length(run, len(items))
    run.charge(len(items))
    return items


def _unique(run: Run, value: object, case_sensitive: bool = False, attribute: object = None) -> object:
    seen: dict[object, object] = {}
    path = parse_path(attribute)
    for item in _each(run, elements(run, value)):
        seen.setdefault(_identity(run, pluck(run, item, path), case_sensitive), item)
    return list(seen.values())


def _identity(run: Run, value: object, case_sensitive: bool) -> object:
    if isinstance(value, str):
        run.charge(len(value) >> 6)
        return str.__str__(value) if case_sensitive else value.lower()
    if value is None or isinstance(value, int | float):
        return value
    return None if isinstance(value, Undefined) else ("json", json_text(run, value))


def _sum(run: Run, value: object, attribute: object = None, start: object = 0) -> object:
    total = start
    path = parse_path(attribute)
    for item in _each(run, elements(run, value)):
        total = _add(run, total, pluck(run, item, path))
    return total


def _extreme(name: str, highest: bool) -> Callable[..., object]:
    def choose(run: Run, value: object, case_sensitive: bool = False, attribute: object = None) -> object:
        path = parse_path(attribute)
        items = [item for item in elements(run, value) if pluck(run, item, path) is not None]
        ordered = _sorted(run, items, attribute, False, bool(case_sensitive))
        return ordered[-1 if highest else 0] if ordered else run.undefined(name)

    return choose


def _groupby(
    run: Run, value: object, attribute: object, default: object = None, case_sensitive: bool = False
) -> object:
    groups: dict[object, Group] = {}
    path = parse_path(attribute)
    for item in _sorted(run, elements(run, value), attribute, False, bool(case_sensitive)):
        shared = pluck(run, item, path)
        if isinstance(shared, Undefined):
            shared = default
        groups.setdefault(_identity(run, shared, bool(case_sensitive)), Group(shared, [])).list.append(item)
    return list(groups.values())


def _batch(run: Run, value: object, linecount: int, fill_with: object = None) -> object:
    size = _count("batch", linecount)
    items = elements(run, value)
    check_length(run, len(items) + (size if fill_with is not None else 0))
    rows = [list(items[start : start + size]) for start in range(0, len(items), size)]
    if rows and fill_with is not None:
        rows[-1] += [fill_with] * (size - len(rows[-1]))
    return rows


def _slice(run: Run, value: object, slices: int, fill_with: object = None) -> object:
    count = _count("slice", slices)
    items = elements(run, value)
    check_length(run, len(items) + count)
    run.charge(count)
    size, longer = divmod(len(items), count)
    rows: list[list[object]] = []
    start = 0
    for number in range(count):
        end = start + size + (number < longer)
        row = list(items[start:end])
        rows.append([*row, fill_with] if fill_with is not None and longer and number >= longer else row)
        start = end
    return rows


def _count(name: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OperationError("value", f"{name} needs a whole number of at least 1")
    if count > MAX_LIST:
        raise over_limit(f"{name} asks for more than {MAX_LIST} elements")
    return count


def _dictsort(run: Run, value: object, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> object:
    if by not in ("key", "value"):
        raise OperationError("value", "dictsort sorts by key or by value")
    pairs = list(mapping_of("dictsort", value).items())
    return _sorted(run, pairs, 0 if by == "key" else 1, bool(reverse), bool(case_sensitive))


def _items(run: Run, value: object) -> object:
    return list(_each(run, list(mapping_of("items", value).items())))


def _keys_of(run: Run, value: object) -> object:
    return list(_each(run, list(mapping_of("keys", value))))


def _values_of(run: Run, value: object) -> object:
    return list(_each(run, list(mapping_of("values", value).values())))


def _combine(run: Run, value: object, *others: object, recursive: bool = False) -> object:
    merged: dict[object, object] = {}
    for part in (value, *others):
        merged = _merge(run, merged, mapping_of("combine", part), bool(recursive), 0)
    return merged


def _merge(
    run: Run, left: Mapping[object, object], right: Mapping[object, object], recursive: bool, depth: int
) -> dict[object, object]:
    check_length(run, len(left) + len(right))
    run.charge(len(left) + len(right))
    if depth > 50:
        raise over_limit("combine nests deeper than 50 levels")
    merged = {**left, **right}
    if recursive:
        for key, item in right.items():
            mine = left.get(key)
            if isinstance(mine, Mapping) and isinstance(item, Mapping):
                merged[key] = _merge(run, mine, item, True, depth + 1)
    return merged


def _flatten(run: Run, value: object) -> object:
    items = _each(run, elements(run, value))
    rows = [item if isinstance(item, list | tuple | range) else (item,) for item in items]
    check_length(run, sum(map(len, rows)))
    return [item for row in rows for item in row]


def _zip(run: Run, value: object, *others: object) -> object:
    columns = [elements(run, column) for column in (value, *others)]
    shortest = min(map(len, columns))
    check_length(run, shortest * len(columns))
    return [list(row) for row in zip(*(column[:shortest] for column in columns), strict=True)]


def _get(run: Run, value: object, path: object, default: object = None) -> object:
    found = value if value is None else pluck(run, value, parse_path(path))
    return default if found is None or isinstance(found, Undefined) else found


def _random(run: Run, value: object) -> object:
    if run.helpers.random is None:
        raise OperationError("value", "random is not available here")
    items = value if isinstance(value, str) else elements(run, value)
    if not items:
        return run.undefined("random")
    return items[min(int(run.helpers.random() * len(items)), len(items) - 1)]


LIST_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "list": _list,
    "length": _length,
    "count": _length,
    "first": _first,
    "last": _last,
    "reverse": _reverse,
    "sort": _sort,
    "unique": _unique,
    "sum": _sum,
    "min": _extreme("min", highest=False),
    "max": _extreme("max", highest=True),
    "groupby": _groupby,
    "batch": _batch,
    "slice": _slice,
    "dictsort": _dictsort,
    "items": _items,
    "keys": _keys_of,
    "values": _values_of,
    "combine": _combine,
    "flatten": _flatten,
    "zip": _zip,
    "get": _get,
    "random": _random,
}
