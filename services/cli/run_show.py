"""What is seen of a run while it runs: nothing, quiet lines in a pipe, or a live tree on a terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from typing_extensions import override

from services.cli.output import complain, printable, wants_colour
from services.cli.run_lines import line_of
from services.cli.run_progress import Progress

TICK_S = 0.1


class Show(ABC):
    """Shows events as they come."""

    @abstractmethod
    def tell(self, event: dict[str, Any]) -> None:
        """Show what happened."""


class Nothing(Show):
    """Shows nothing."""

    @override
    def tell(self, event: dict[str, Any]) -> None:
        pass


class Lines(Show):
    """Writes a line to stderr for each event that matters, with the seconds since the first."""

    def __init__(self) -> None:
        self._first: datetime | None = None

    @override
    def tell(self, event: dict[str, Any]) -> None:
        at = datetime.fromisoformat(str(event["occurred_at"]).replace("Z", "+00:00"))
        self._first = self._first or at
        if (line := line_of(event)) is not None:
            complain(f"{(at - self._first).total_seconds():8.2f} s  {line}")


class Tree(Show):
    """Folds events into what the live tree shows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    @override
    def tell(self, event: dict[str, Any]) -> None:
        self._progress.apply(event, time.monotonic())


@asynccontextmanager
async def showing(title: str, *, quiet: bool, colour: str) -> AsyncIterator[Show]:
    """Give what the caller's stderr is fit for."""
    if quiet or sys.stderr is None:
        yield Nothing()
    elif sys.stderr.isatty():
        async with _live(printable(title), colour=wants_colour(colour, sys.stderr)) as show:
            yield show
    else:
        yield Lines()


@asynccontextmanager
async def _live(title: str, *, colour: bool) -> AsyncIterator[Show]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from services.cli.run_tree import tree

    console = Console(stderr=True, no_color=not colour, highlight=False)
    progress = Progress(title, began_s=time.monotonic())

    def drawn(height: int | None) -> Text:
        lines = (Text.assemble(*line) for line in tree(progress, time.monotonic(), height))
        return Text("\n", no_wrap=height is not None, overflow="ellipsis").join(lines)

    async def tick() -> None:
        while True:
            live.update(drawn(max(3, console.height - 2)), refresh=True)
            await asyncio.sleep(TICK_S)

    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        ticking = asyncio.create_task(tick())
        try:
            yield Tree(progress)
        finally:
            ticking.cancel()
            live.update(Text(""), refresh=True)
    console.print(drawn(None))
