"""Settings from the environment: read once, all problems said at once, secrets also from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shared.templates.durations import parse_duration

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class SettingsError(ValueError):
    """The environment does not say what a service needs; mend it and start again."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Environment:
    """Reads settings and remembers what is wrong with them until `check` is called.

    A setting `X` may also be given as `X_FILE`, the path of a file that holds it. In dev mode a setting that is
    required may be left out where it has a default for that.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.problems: list[str] = []
        self.is_dev = self.flag("REDRIVE_DEV", False)

    def check(self) -> None:
        """Raise SettingsError if anything was wrong."""
        if self.problems:
            raise SettingsError(self.problems)

    def text(self, name: str, default: str) -> str:
        """Return a text."""
        found = self._found(name)
        return default if found is None else found

    def required(self, name: str, dev: str | None = None, *, refuse: tuple[str, ...] = ()) -> str:
        """Return a text that must be there; outside dev mode the values to `refuse` are as bad as none."""
        found = self._found(name)
        if found and (self.is_dev or found not in refuse):
            return found
        if found:
            self.problems.append(f"{name} is a value that everybody knows; set one of your own")
        elif self.is_dev and dev is not None:
            return dev
        else:
            self.problems.append(f"{name} (or {name}_FILE) is not set")
        return ""

    def words(self, name: str, default: str) -> tuple[str, ...]:
        """Return the words of a list that is separated by commas."""
        found = tuple(word.strip() for word in self.text(name, default).split(",") if word.strip())
        if not found:
            self.problems.append(f"{name} names nothing")
        return found

    def whole(self, name: str, default: int, *, at_least: int = 0) -> int:
        """Return a whole number."""
        found = self._found(name)
        if found is None:
            return default
        try:
            number = int(found)
        except ValueError:
            self.problems.append(f"{name} is no whole number")
            return default
        if number < at_least:
            self.problems.append(f"{name} is below {at_least}")
        return number

    def seconds(self, name: str, default: float) -> float:
        """Return a duration, written as seconds, '500ms' or '2m'."""
        found = self._found(name)
        if found is None:
            return default
        try:
            return parse_duration(found)
        except ValueError as problem:
            self.problems.append(f"{name}: {problem}")
            return default

    def flag(self, name: str, default: bool) -> bool:
        """Return a yes or no."""
        found = (self._found(name) or "").strip().lower()
        if found and found not in _TRUE | _FALSE:
            self.problems.append(f"{name} is neither yes nor no")
        return found in _TRUE if found else default

    def _found(self, name: str) -> str | None:
        path = self._values.get(f"{name}_FILE")
        if path is None:
            return self._values.get(name)
        if name in self._values:
            self.problems.append(f"{name} and {name}_FILE are both set; keep one")
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            self.problems.append(f"{name}_FILE names a file that cannot be read")
            return None
