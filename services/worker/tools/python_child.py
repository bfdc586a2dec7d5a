"""What runs the code of a `python` task in its own process: loaded by path, with nothing of ours imported.

It reads one request from stdin and writes one reply to a descriptor, each a length of eight bytes and JSON. What the
code prints goes to stdout and stderr as usual.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

MODULE = "playbook_code"
MAX_MESSAGE = 2000
MAX_TRACEBACK = 8000
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class NotJsonError(Exception):
    """The result holds something that JSON has no word for."""


def serve(reply_fd: int) -> None:
    """Serve one request and end the process, whatever threads the code has left."""
    request = json.loads(_read(0, int.from_bytes(_read(0, 8), "big")))
    _close_stdin()
    try:
        reply = _encoded(_served(request))
    except MemoryError:
        reply = b'{"error":{"exception":"MemoryError","message":"out of memory","traceback":""}}'
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _write(reply_fd, len(reply).to_bytes(8, "big") + reply)
    os._exit(0)


def _served(request: dict[str, Any]) -> dict[str, Any]:
    try:
        code = Code(request["code"], request["file"], request["first_line"])
        return {"text": as_json(run(code, request["input"], request["libs"]))}
    except BaseException as problem:
        return {"error": described(problem)}


def _encoded(reply: dict[str, Any]) -> bytes:
    """Return the reply as bytes; the result, which is JSON already, is not encoded again."""
    text = reply.get("text")
    if isinstance(text, str):
        return b'{"result":' + text.encode("utf-8", "surrogatepass") + b"}"
    return json.dumps(reply).encode()


class Code:
    """Program text, and where it stands: the name of its file, and the line on which it begins there."""

    def __init__(self, text: str, file: str, first_line: int) -> None:
        self.file = file
        self.text = "\n" * (first_line - 1) + text

    def show(self) -> None:
        """Let tracebacks quote the lines."""
        linecache.cache[self.file] = (len(self.text), None, self.text.splitlines(keepends=True), self.file)


def run(code: Code, inputs: dict[str, Any], libs: list[tuple[str, str]]) -> Any:
    """Run the code and return its result: what it returned, what it set as `result`, or what `main` returned."""
    code.show()
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    names = module.__dict__
    names.update({key: value for key, value in inputs.items() if key.isidentifier() and not key.startswith("__")})
    names["input_data"] = inputs
    for alias, name in libs:
        found = importlib.import_module(name)
        names[alias] = sys.modules[name.partition(".")[0]] if alias == name.partition(".")[0] else found
    tree = ast.parse(code.text, code.file)
    bound = set(_bound(tree.body))
    returned = _executed(tree, code.file, bound, names)
    if returned is not None:
        return returned.value
    if "result" in bound and "result" in names:
        return names["result"]
    if "main" in bound and callable(names.get("main")):
        return _called(names["main"], {**inputs, "input_data": inputs}, inputs)
    return None if "result" in inputs else names.get("result")


class _Returned:
    def __init__(self, value: Any) -> None:
        self.value = value


def _executed(tree: ast.Module, file: str, bound: set[str], names: dict[str, Any]) -> _Returned | None:
    """Run the module; one that returns at its top level is made a function whose names are global all the same."""
    if not any(isinstance(node, ast.Return) for node in _own_nodes(tree.body)):
        exec(compile(tree, file, "exec", dont_inherit=True), names)
        return None
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body: list[ast.stmt] = [node for node in tree.body if node not in future]
    if bound:
        body.insert(0, ast.Global(sorted(bound)))
    shell = ast.parse("def __script__(): pass")
    function = shell.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = body
    shell.body = [*future, function]
    ast.fix_missing_locations(shell)
    exec(compile(shell, file, "exec", dont_inherit=True), names)
    return _Returned(names.pop("__script__")())


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Give the nodes that belong to the module itself, not to a function or class in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Give the names that the module binds."""
    inside = {
        id(part)
        for node in _own_nodes(body)
        if isinstance(node, _COMPREHENSIONS)
        for generator in node.generators
        for part in ast.walk(generator.target)
    }
    for node in _own_nodes(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if id(node) not in inside:
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (a.asname or a.name.partition(".")[0] for a in aliases if a.name != "*")
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case _:
                pass


def _called(function: Callable[..., Any], known: dict[str, Any], inputs: dict[str, Any]) -> Any:
    """Call `main` with the inputs that it names; with all of them if it takes any."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    missing: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update({key: value for key, value in inputs.items() if key not in named})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif name in known:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(known[name])
            else:
                named[name] = known[name]
        elif parameter.default is parameter.empty:
            missing.append(name)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.default)
    if missing:
        given = ", ".join(sorted(inputs)) or "none"
        raise TypeError(f"main() needs {', '.join(missing)}, which no input gives; inputs: {given}")
    result = function(*positional, **named)
    if inspect.iscoroutine(result):
        import asyncio

        return asyncio.run(result)
    return result


def as_json(value: Any) -> str:
    """Return a result as JSON, or raise NotJsonError that names the place and the type."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as problem:
        raise NotJsonError(_complaint(value) or f"the result is no JSON: {problem}") from None


def _complaint(value: Any) -> str | None:
    waiting: list[tuple[str, Any]] = [("result", value)]
    for place, item in waiting:
        if len(waiting) > 1_000_000 or len(place) > 500:
            return None
        if isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
            return f"{place} is {item}, which JSON cannot hold"
        if isinstance(item, list | tuple):
            waiting.extend((f"{place}[{index}]", part) for index, part in enumerate(item))
        elif isinstance(item, dict):
            for key, part in item.items():
                if not isinstance(key, str | int | float | bool | None):
                    return f"{place} has a key of type {type(key).__name__}, which JSON cannot hold"
                waiting.append((f"{place}.{key}", part))
        elif not isinstance(item, str | int | float | None):
            return f"{place} is of type {type(item).__name__}, which JSON cannot hold"
    return None


def described(problem: BaseException) -> dict[str, Any]:
    """Return an exception as data, its traceback cut to the code and what it called."""
    if isinstance(problem, NotJsonError):
        return {"exception": "NotJsonError", "module": None, "message": str(problem)[:MAX_MESSAGE], "traceback": ""}
    kind = type(problem)
    try:
        message = str(problem)
    except Exception:
        message = "(it cannot be shown)"
    found = traceback.TracebackException(kind, problem, problem.__traceback__, compact=True)
    _cut(found)
    text = "".join(found.format()).replace(f"{MODULE}.", "")
    return {
        "exception": kind.__name__,
        "module": None if kind.__module__ in ("builtins", MODULE) else kind.__module__,
        "message": message[:MAX_MESSAGE],
        "traceback": text[-MAX_TRACEBACK:],
    }


def _cut(found: traceback.TracebackException) -> None:
    waiting: list[traceback.TracebackException | None] = [found]
    while waiting:
        part = waiting.pop()
        if part is None:
            continue
        own = [f for f in part.stack if f.filename != __file__ and not f.filename.startswith("<frozen ")]
        part.stack[:] = own
        for frame in own:
            frame.name = "<code>" if frame.name == "__script__" else frame.name
        waiting.extend((part.__cause__, part.__context__))


def _close_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _read(fd: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        piece = os.read(fd, min(size, 1 << 20))
        if not piece:
            os._exit(1)
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
