"""The database of an embedded system: the one that is named, or a private one, brought to today's schema."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from services.cli.data_folder import DataFolder
from shared.runtime.embedded import CACHE, MAKING, WHEEL, PrivatePostgres
from shared.runtime.embedded_template import DataTemplate
from shared.store.migrations_place import migrations_mark

SCHEMA_MARK = "schema"


@asynccontextmanager
async def database(folder: DataFolder, url: str | None) -> AsyncIterator[str]:
    """Give the URL of a database that has our schema; a private one runs as long as the body does."""
    if url:
        await _migrate(url)
        yield url
        return
    template = _template()
    server = PrivatePostgres(folder.postgres, durable=not folder.is_temporary, template=template)
    try:
        await uninterrupted(server.start)
        await _bring_up(server, folder, template)
        yield server.url()
    finally:
        await uninterrupted(server.stop)


async def uninterrupted(work: Callable[[], object]) -> None:
    """Do something in a thread, to its end, even if the caller is cancelled meanwhile."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


async def _bring_up(server: PrivatePostgres, folder: DataFolder, template: DataTemplate) -> None:
    """Migrate what has not the schema of this release, and keep new data as the template of the next."""
    mark = folder.path / SCHEMA_MARK
    wanted = migrations_mark()
    if server.made != "copied" and not (mark.exists() and mark.read_text(encoding="utf-8") == wanted):
        await _migrate(server.url())
    if server.made == "new":

        def keep() -> None:
            server.stop()
            template.keep(server.data)
            server.start()

        await uninterrupted(keep)
    mark.write_text(wanted, encoding="utf-8")


async def _migrate(url: str) -> None:
    from shared.store.migrate import upgrade

    await upgrade(url)


def _template() -> DataTemplate:
    """Return the template for this server, this schema and this user."""
    spec = importlib.util.find_spec(WHEEL)
    places = spec.submodule_search_locations if spec is not None else None
    program = Path(next(iter(places or ()), "")) / "pginstall" / "bin" / "postgres"
    about = program.stat() if program.is_file() else None
    version = f"{about.st_size:x}-{about.st_mtime_ns:x}" if about is not None else "none"
    return DataTemplate(_cache(), f"{MAKING}-{version}-{migrations_mark()}-{os.geteuid()}")


def _cache() -> Path:
    if asked := os.environ.get("REDRIVE_CACHE_DIR"):
        return Path(asked)
    if os.geteuid() == 0:
        return CACHE / "templates"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "redrive"
