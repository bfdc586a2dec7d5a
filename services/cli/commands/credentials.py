"""`redrive credentials`: set, list and delete credentials on a server; make keys, and seal everything anew."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from services.cli.exit_codes import ExitCode
from services.cli.output import complain, printable
from services.cli.resources import add_format_option, add_server_options, address_of, say, table

if TYPE_CHECKING:
    from services.cli.credentials_api import CredentialsApi

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
        add_server_options(each)
    rotation = actions.add_parser(
        "rotate", help="seal everything with the first of the configured keys", allow_abbrev=False
    )
    rotation.add_argument("--database", metavar="URL", help="where; REDRIVE_DATABASE_URL unless given")
    rotation.epilog = f"The keys are those of {KEYS_SETTING} or {KEYS_SETTING}_FILE: the new one first, then the old."
    fresh = actions.add_parser("key", help=f"print a fresh key for {KEYS_SETTING}", allow_abbrev=False)
    for each in (rotation, fresh):
        add_format_option(each)


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
    return say(arguments, {"key": key}, [key])


def _ask(arguments: argparse.Namespace) -> int:
    import asyncio

    from services.cli.api import ApiError
    from services.cli.credential_fields import FieldError, fields_of
    from services.cli.credentials_api import CredentialsApi

    try:
        fields, seen = fields_of(arguments.field, arguments.from_env) if arguments.action == "set" else ({}, [])
        if seen:
            named = ", ".join(map(printable, seen))
            complain(f"redrive credentials: {named} stood on the command line, where others may have seen it")
        return asyncio.run(_asked(CredentialsApi(*address_of(arguments)), arguments, fields))
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
            return say(arguments, kept, [f"{kept['name']} is kept, sealed with the key {kept['key_id']}"])
        if arguments.action == "delete":
            await api.delete(arguments.name)
            return say(
                arguments, {"name": arguments.name, "deleted": True}, [f"{printable(arguments.name)} is deleted"]
            )
        items = await api.all()
        rows = [(item["name"], item["kind"], item["key_id"], item["updated_at"]) for item in items]
        lines = table(("name", "kind", "key", "updated"), rows, "there are no credentials")
        return say(arguments, {"items": items}, lines)
    finally:
        await api.close()


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
    say(arguments, {"key_id": done.key_id, "resealed": done.resealed, "unopened": done.unopened}, [said])
    for reason in done.unopened.values():
        complain(f"redrive credentials: {reason}")
    return ExitCode.CONFLICT if done.unopened else ExitCode.OK
