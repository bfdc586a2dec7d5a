"""Writes to sinks, here and in processes of their own that may be killed at a crash point."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from services.worker.keychain import Credential
from services.worker.sinks.duckdb import DuckdbSink
from services.worker.sinks.file import FileSink
from services.worker.sinks.file_places import Places
from services.worker.sinks.port import Sink, Write
from shared.runtime.crashpoints import VARIABLE

REPOSITORY = Path(__file__).parents[2]


def a_write(config: dict[str, Any], data: Any, identity: str = "job-1", **more: Any) -> Write:
    """Return a write with this configuration."""
    return Write(identity, "e1", "fetch~1.get#1", config, data, **more)


async def in_another_process(
    kind: str, root: Path, config: dict[str, Any], data: Any, identity: str = "job-1", *, crash_at: str | None = None
) -> tuple[int, str]:
    """Write in a process of its own; return its exit code and what it printed."""
    request = json.dumps({"kind": kind, "root": str(root), "config": config, "data": data, "identity": identity})
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    env.pop(VARIABLE, None)
    if crash_at is not None:
        env[VARIABLE] = crash_at
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.sink_process", cwd=REPOSITORY, env=env,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate(request.encode())
    assert process.returncode is not None
    return process.returncode, said.decode()


def lending(**fields: Any) -> Any:
    """Return what lends one credential with these fields, whatever it is asked for."""

    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), fields.pop("kind", "duckdb"), fields)

    return lend


async def _main() -> None:
    request = json.loads(sys.stdin.read())
    places = Places(request["root"])
    sink: Sink = FileSink(places) if request["kind"] == "file" else DuckdbSink(places)
    written = await sink.write(a_write(request["config"], request["data"], request["identity"]))
    await sink.close()
    sys.stdout.write(json.dumps({"rows": written.rows, "repeated": written.repeated}))


if __name__ == "__main__":
    asyncio.run(_main())
