"""`redrive credentials`: set, list and delete credentials on a server; make keys, and seal everything anew."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from services.cli.exit_codes import ExitCode
from services.cli.output import complain, print_json, printable

if TYPE_CHECKING:
    from services.cli.credentials_api import CredentialsApi

DEFAULT_SERVER = "http://127.0.0.1:8080"
KEYS_SETTING = "REDRIVE_CREDENTIAL_KEYS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    put = actions.add_parser("set", help="keep a credential, in place of the one of that name", allow_abbrev=False)
    put.add_argument("name", metavar="NAME")
    put.add_argument("--kind", required=True, help="postgres, bearer, basic, header, oauth2, rabbitmq or generic")
    put.add_argument("--field", metavar="NAME=@FILE", action="append", default=[], help="a field, from a file")
    put.add_argument(
        "--from-env",
        metavar="[NAME=]VARIABLE",
        action="append",
        default=[],
        help="a field from a variable, or all fields from one that holds JSON",
    )
    put.epilog = "Without --field and --from-env the fields are read as JSON from standard input."
    listing = actions.add_parser("list", help="show names and kinds, never what they hold", allow_abbrev=False)
    remove = actions.add_parser("delete", help="delete a credential", allow_abbrev=False)
    remove.add_argument("name", metavar="NAME")
    for each in (put, listing, remove):
        each.add_argument("--server", metavar="URL", help=f"REDRIVE_SERVER unless given, else {DEFAULT_SERVER}")
        each.add_argument("--key", metavar="KEY", help="the key for the server; REDRIVE_API_KEY unless given")
    rotation = actions.add_parser(
        "rotate", help="seal everything with the first of the configured keys", allow_abbrev=False
    )
    rotation.add_argument("--database", metavar="URL", help="where; REDRIVE_DATABASE_URL unless given")
    rotation.epilog = f"The keys are those of {KEYS_SETTING} or {KEYS_SETTING}_FILE: the new one first, then the old."
    fresh = actions.add_parser("key", help=f"print a fresh key for {KEYS_SETTING}", allow_abbrev=False)
    for each in (put, listing, remove, rotation, fresh):
        each.add_argument("-o", "--format", choices=("text", "json"), default="text", help="people's output, or JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked and say what came of it; what a credential holds is never repeated."""
    match arguments.action:
        case "key":
            return _key(arguments)
        case "rotate":
            return _rotate(arguments)
        case _:
            return _ask(arguments)


def _key(arguments: argparse.Namespace) -> int:
    from shared.runtime.sealing import new_key

    key = new_key()
    if arguments.format == "json":
        print_json({"key": key})
    else:
        print(key)
    return ExitCode.OK


def _ask(arguments: argparse.Namespace) -> int:
    import asyncio

    from services.cli.api import ApiError
    from services.cli.credential_fields import FieldError, fields_of
    from services.cli.credentials_api import CredentialsApi

    server = arguments.server or os.environ.get("REDRIVE_SERVER") or DEFAULT_SERVER
    key = arguments.key or os.environ.get("REDRIVE_API_KEY")
    try:
        fields, seen = fields_of(arguments.field, arguments.from_env) if arguments.action == "set" else ({}, [])
        if seen:
            named = ", ".join(map(printable, seen))
            complain(f"redrive credentials: {named} stood on the command line, where others may have seen it")
        return asyncio.run(_asked(CredentialsApi(server, key), arguments, fields))
    except FieldError as problem:
        complain(f"redrive credentials: {problem}")
        return ExitCode.INVALID
    except ApiError as problem:
        complain(f"redrive credentials: {problem}")
        return problem.code


async def _asked(api: CredentialsApi, arguments: argparse.Namespace, fields: dict[str, object]) -> int:
    try:
        if arguments.action == "set":
            kept = await api.put(arguments.name, arguments.kind, fields)
            _say(arguments, kept, f"{kept['name']} is kept, sealed with the key {kept['key_id']}")
        elif arguments.action == "delete":
            await api.delete(arguments.name)
            _say(arguments, {"name": arguments.name, "deleted": True}, f"{arguments.name} is deleted")
        else:
            items = await api.all()
            lines = [f"{item['name']}\t{item['kind']}\t{item['key_id']}\t{item['updated_at']}" for item in items]
            _say(arguments, {"items": items}, "\n".join(lines) or "there are no credentials")
    finally:
        await api.close()
    return ExitCode.OK


def _rotate(arguments: argparse.Namespace) -> int:
    import asyncio

    from services.cli.rotation import Rotated, rotate
    from shared.errors import RejectedError, UnavailableError
    from shared.runtime.config import Environment, SettingsError
    from shared.runtime.sealing import Keyring, parse_ring
    from shared.store.postgres.store import PostgresStore

    async def rotated(url: str, ring: Keyring) -> Rotated:
        store = PostgresStore.connect(url, application="redrive credentials")
        try:
            return await rotate(store, ring, "redrive credentials rotate")
        finally:
            await store.close()

    env = Environment({**os.environ, **({"REDRIVE_DATABASE_URL": arguments.database} if arguments.database else {})})
    url, parsed = env.required("REDRIVE_DATABASE_URL"), parse_ring(env.required(KEYS_SETTING), is_dev=env.is_dev)
    env.problems.extend(f"{KEYS_SETTING}: {problem}" for problem in parsed.problems)
    try:
        env.check()
        assert parsed.ring is not None
        done = asyncio.run(rotated(url, parsed.ring))
    except SettingsError as problem:
        complain("\n".join(f"redrive credentials: {line}" for line in problem.problems))
        return ExitCode.INVALID
    except RejectedError as problem:
        complain(f"redrive credentials: {problem}")
        return ExitCode.INVALID
    except UnavailableError as problem:
        complain(f"redrive credentials: {problem}")
        return ExitCode.UNREACHABLE
    said = f"{len(done.resealed)} sealed anew with the key {done.key_id}"
    _say(arguments, {"key_id": done.key_id, "resealed": done.resealed, "unopened": done.unopened}, said)
    for reason in done.unopened.values():
        complain(f"redrive credentials: {reason}")
    return ExitCode.CONFLICT if done.unopened else ExitCode.OK


def _say(arguments: argparse.Namespace, data: object, text: str) -> None:
    if arguments.format == "json":
        print_json(data)
    else:
        print("\n".join(_shown(line) for line in text.splitlines()))


def _shown(line: str) -> str:
    return "  ".join(printable(part) for part in line.split("\t"))
