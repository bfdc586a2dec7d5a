"""How names of a playbook are written and guessed."""

from collections.abc import Iterable

Path = tuple[str | int, ...]

_MAX_KEY_SHOWN = 80


def dotted(path: Path) -> str:
    """Write a path as people say it: `outcome.http.headers.retry-after`."""
    return ".".join(shown(key) for key in path)


def shown(key: object) -> str:
    """Write one key short enough for a message."""
    text = key if isinstance(key, str) else str(key) if isinstance(key, int | float) else type(key).__name__
    return text if len(text) <= _MAX_KEY_SHOWN else text[: _MAX_KEY_SHOWN - 1] + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name nearest to a mistyped one, or nothing."""
    from difflib import get_close_matches  # only needed once something is wrong

    close = get_close_matches(name[:_MAX_KEY_SHOWN], sorted(known), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""
