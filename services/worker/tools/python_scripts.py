"""Scripts that a `python` task names instead of holding the code itself: files of the operator, or fetched ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.worker.tools.configs import BadConfigError, Config, bad_config
from services.worker.tools.port import Call
from shared.contracts.outcomes import Outcome, failure

MAX_SCRIPT_BYTES = 1024 * 1024
ROOT_SETTING = "REDRIVE_SCRIPTS_ROOT"

Fetch = Callable[[Call], Awaitable[Outcome]]


class Script(Config):
    """Code that is kept elsewhere."""

    uri: str | None = None
    file: str | None = None
    inline: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Program text, what tracebacks call it, and the line there on which it begins."""

    text: str
    file: str
    first_line: int = 1


class ScriptError(Exception):
    """A script cannot be had; `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__((outcome.error or {}).get("message"))
        self.outcome = outcome


class Scripts:
    """Finds scripts below one folder, and fetches others the way the `http` tool calls endpoints."""

    def __init__(self, root: str | None = None, fetch: Fetch | None = None) -> None:
        self._root = root
        self._fetch = fetch

    async def load(self, script: Script, call: Call) -> Source:
        """Return the text of a script; raises BadConfigError or ScriptError."""
        if script.file is not None:
            return await asyncio.to_thread(self._read, script.file)
        if script.uri is None:
            raise bad_config("python", "script: one of uri, file and inline is needed")
        parts = urlsplit(script.uri)
        if "://" not in script.uri:
            return await asyncio.to_thread(self._read, script.uri)
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            return await asyncio.to_thread(self._read, unquote(parts.path))
        if parts.scheme in ("http", "https"):
            return await self._fetched(script.uri, parts.path, call)
        raise bad_config("python", "script.uri begins with http://, https:// or file:///")

    def _read(self, name: str) -> Source:
        """Return a file below the root; whatever leads out of it is refused."""
        if self._root is None:
            raise _denied(f"this worker has no scripts: {ROOT_SETTING} names no folder")
        root = Path(self._root).resolve()
        try:
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise _denied(f"the script '{name[:200]}' is not below {ROOT_SETTING}")
            if not path.is_file():
                raise ScriptError(failure("exception", f"there is no script '{name[:200]}'", code="FileNotFoundError"))
            with path.open("rb") as file:
                return _source(file.read(MAX_SCRIPT_BYTES + 1), path.relative_to(root).as_posix())
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or "it is no name of a file"
            raise ScriptError(failure("exception", f"the script '{name[:200]}' cannot be read: {reason}")) from None

    async def _fetched(self, uri: str, path: str, call: Call) -> Source:
        if self._fetch is None:
            raise _denied("this worker fetches no scripts")
        config = {"url": uri, "max_body": MAX_SCRIPT_BYTES, "headers": {"Accept": "text/x-python, text/plain"}}
        outcome = await self._fetch(replace(call, config=config, input={}))
        if outcome.status == "error":
            message = f"the script cannot be fetched: {(outcome.error or {}).get('message')}"
            raise ScriptError(replace(outcome, result=None, error={**(outcome.error or {}), "message": message}))
        result = outcome.result if isinstance(outcome.result, dict) else {}
        if not isinstance(result.get("body"), str) or result.get("encoding") is not None:
            raise ScriptError(failure("exception", "what was fetched is no program text"))
        return Source(result["body"], path.rpartition("/")[2] or "script")


def _source(data: bytes, file: str) -> Source:
    if len(data) > MAX_SCRIPT_BYTES:
        raise ScriptError(failure("limit", f"the script '{file[:200]}' is larger than {MAX_SCRIPT_BYTES} bytes"))
    try:
        return Source(data.decode("utf-8-sig"), file)
    except UnicodeDecodeError:
        raise ScriptError(failure("exception", f"the script '{file[:200]}' is not UTF-8")) from None


def _denied(message: str) -> BadConfigError:
    return bad_config("python", message)
