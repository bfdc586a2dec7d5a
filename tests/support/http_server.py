"""A real HTTP server on the loopback, whose answers a test writes down beforehand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from tests.support.loopback import LoopbackServer


@dataclass(frozen=True)
class Request:
    """What the server was asked; header names are in small letters."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What the server says; with `pieces` the length is not announced, with a fault it does not say all of it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    fault: str | None = None
    """`silent`: no answer ever; `stalled`: silent after the headers; `cut`: the connection is closed instead."""


Script = Callable[[Request], Answer]


def answer_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """Return an answer of JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **named})


class HttpServer(LoopbackServer):
    """Serves a script, or a list of answers of which the last one repeats; remembers what it was asked."""

    def __init__(self, script: Script | Answer | list[Answer]) -> None:
        super().__init__()
        self._script = script if callable(script) else _in_turn([script] if isinstance(script, Answer) else script)
        self.requests: list[Request] = []
        self.connections = 0

    @override
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while request := await _read_request(reader):
            self.requests.append(request)
            if not await _said(writer, self._script(request), request):
                break


def _in_turn(answers: list[Answer]) -> Script:
    left = list(answers)

    def script(request: Request) -> Answer:
        return left.pop(0) if len(left) > 1 else left[0]

    return script


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = await _read_pieces(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


async def _read_pieces(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body


async def _said(writer: asyncio.StreamWriter, answer: Answer, request: Request) -> bool:
    """Write the answer, and say whether the connection can be used again."""
    if answer.fault == "cut":
        return False
    if answer.fault == "silent":
        await asyncio.Event().wait()
    headers = dict(answer.headers)
    if answer.pieces is not None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers.setdefault("Content-Length", str(len(answer.body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{head}\r\n".encode("latin-1"))
    await writer.drain()
    if answer.fault == "stalled":
        await asyncio.Event().wait()
    if request.method == "HEAD":
        return True
    for piece in answer.pieces or ():
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    writer.write(b"0\r\n\r\n" if answer.pieces is not None else answer.body)
    await writer.drain()
    return True
