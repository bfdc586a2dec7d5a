"""`redrive dev`: the whole system in one process, durable in a folder, until it is stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from services.cli.output import add_colour_option

DEFAULT_FOLDER = ".redrive"
DEFAULT_PORT = 8080


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("--data", metavar="DIR", default=DEFAULT_FOLDER, help=f"where everything is kept; ./{DEFAULT_FOLDER} (default)")
    add("--port", metavar="N", type=_port, default=DEFAULT_PORT, help=f"of 127.0.0.1; {DEFAULT_PORT} (default), 0: any")
    add("--amqp", metavar="URL", help="a RabbitMQ; REDRIVE_AMQP_URL, else the broker is in memory")
    add("--pools", metavar="A,B", default="", help="the pools that its worker serves; 'default' unless given")
    add_colour_option(parser)
    parser.epilog = (
        "Listens on the loopback and asks nobody for a key unless REDRIVE_API_KEYS is set. A Postgres that "
        "REDRIVE_DATABASE_URL names is used instead of a private one."
    )


def run(arguments: argparse.Namespace) -> int:
    """Keep the system up until it is stopped."""
    from services.cli.dev_session import Dev, stay_up

    pools = tuple(word.strip() for word in arguments.pools.split(",") if word.strip())
    return stay_up(Dev(Path(arguments.data), arguments.port, arguments.amqp, pools, arguments.color))


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)
