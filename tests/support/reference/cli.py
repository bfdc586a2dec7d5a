"""The tables of the command line reference, from the parsers of the commands."""

from __future__ import annotations

import argparse
import importlib

from services.cli.__main__ import COMMANDS, SERVICES
from tests.support.reference.tables import code, table


def parts() -> dict[str, str]:
    """Return every generated part by the name that pages call it by."""
    rows = [(f"[{code(f'redrive {name}')}](#redrive-{name})", text) for name, text in COMMANDS.items()]
    return {"commands": table(("command", "what it does"), rows), "commands in full": "\n\n".join(map(_full, COMMANDS))}


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command, without its help."""
    parser = argparse.ArgumentParser(f"redrive {name}", allow_abbrev=False)
    if name not in (*SERVICES, "help"):
        importlib.import_module(f"services.cli.commands.{name}").add_arguments(parser)
    return parser


def _full(name: str) -> str:
    about = f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."
    return "\n\n".join([f"### redrive {name}", about, *_of_parser(parser_of(name))])


def _of_parser(parser: argparse.ArgumentParser) -> list[str]:
    out = []
    plain = [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]
    if rows := [_row(action) for action in plain if "-h" not in action.option_strings]:
        out.append(table(("argument", "meaning"), rows))
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            about = {choice.dest: choice.help or "" for choice in group._choices_actions}
            for name, inner in group.choices.items():
                out += [f"**{code(inner.prog)}**: {about[name]}", *_of_parser(inner)]
    if parser.epilog:
        out.append(parser.epilog)
    return out


def _row(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    value = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        repeated = "…" if action.nargs in ("*", "+") else ""
        return code(f"{value}{repeated}"), action.help or ""
    names = ", ".join(action.option_strings)
    needed = "; needed" if action.required else ""
    return code(names if action.nargs == 0 else f"{names} {value}"), f"{action.help or ''}{needed}"
