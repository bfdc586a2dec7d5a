"""What each command of ours reads of its environment, found by reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from typing_extensions import override

from services.cli.commands.migrate import database_url
from services.ingest.settings import read_settings as ingest
from services.orchestrator.settings import settings_from as orchestrator
from services.worker.settings import read_settings as worker
from shared.broker.definitions import password_names
from shared.runtime.config import Environment
from tests.support.repository import ROOT

DEFINITIONS = ROOT / "deploy" / "rabbitmq" / "definitions.json"


class Watched(Mapping[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.asked: set[str] = set()

    @override
    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self._values[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    @override
    def __len__(self) -> int:
        return len(self._values)


def broker(values: Mapping[str, str]) -> None:
    """Read the passwords that the definitions of RabbitMQ need."""
    env = Environment(values)
    for name in password_names(DEFINITIONS.read_text(encoding="utf-8")):
        env.text(name, "")
    env.check()


READERS: dict[str, Callable[[Mapping[str, str]], Any]] = {
    "broker": broker,
    "migrate": database_url,
    "ingest": ingest,
    "orchestrator": orchestrator,
    "worker": worker,
}


def read(command: str, values: Mapping[str, str]) -> set[str]:
    """Read settings as a command does, and return every name it looked for; raises SettingsError."""
    watched = Watched(values)
    READERS[command](watched)
    return watched.asked
