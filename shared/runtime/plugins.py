"""Kinds of tools that installed packages bring to the language, found by entry points of the group `redrive.kinds`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from shared.language.kinds import BUILT_IN, Kind, Kinds

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "redrive.kinds"

Complain = Callable[[str, str], None]
"""Told the entry point of a package that is left out, and why."""


def installed_kinds(complain: Complain, places: Sequence[str] | None = None) -> Kinds:
    """Return the built-in kinds and those of installed packages; what cannot be loaded is left out."""
    return with_plugins(_entry_points(sys.path if places is None else places), complain)


def with_plugins(points: Iterable[EntryPoint], complain: Complain) -> Kinds:
    """Return the built-in kinds and those that entry points lead to; of two with one name the first is kept."""
    kinds = BUILT_IN
    for point in points:
        try:
            found = point.load()
            if not isinstance(found, Kind):
                raise TypeError(f"it is of type {type(found).__name__}, not a Kind")
            if found.name in kinds.tools:
                raise ValueError(f"there is another tool of the kind '{found.name}'")
            kinds = kinds.with_tools(found)
        except (Exception, SystemExit) as problem:
            complain(f"{point.name} = {point.value}", f"{type(problem).__name__}: {problem}"[:300])
    return kinds


def _entry_points(places: Sequence[str]) -> Iterable[EntryPoint]:
    """Return what packages offer; without any, the library that reads their metadata is not even loaded."""
    if not any(_offers_kinds(place) for place in places):
        return ()
    from importlib.metadata import distributions

    found = {dist.name: dist for dist in reversed(list(distributions(path=list(places))))}
    return [point for name in sorted(found) for point in found[name].entry_points.select(group=GROUP)]


def _offers_kinds(place: str) -> bool:
    """Say whether a folder of installed packages has one that names the group."""
    try:
        with os.scandir(place or ".") as entries:
            packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    return any(map(_names_the_group, packages))


def _names_the_group(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False
