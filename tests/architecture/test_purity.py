"""The pure packages take time, chance and the world as arguments, or not at all."""

import pytest

from tests.support.effects import effects
from tests.support.repository import modules, pure_packages, shown


@pytest.mark.parametrize("package", pure_packages())
def test_a_pure_package_reaches_no_clock_chance_or_world(package: str) -> None:
    reached = [
        f"{shown(path)}:{line}: {name}"
        for path in modules(package)
        for line, name in effects(path.read_text(encoding="utf-8"))
    ]

    assert reached == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time", "time.*"),
        ("from time import monotonic as tick", "time.monotonic"),
        ("import datetime as d\nd.datetime.now(d.UTC)", "datetime.datetime.now"),
        ("from datetime import datetime\nclock = datetime.utcnow", "datetime.datetime.utcnow"),
        ("from datetime import date\ndate.today()", "datetime.date.today"),
        ("def f():\n    import random", "random.*"),
        ("from random import Random", "random.Random"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("from uuid import uuid1", "uuid.uuid1"),
        ("import os\nos.environ['HOME']", "os.environ"),
        ("import urllib.request", "urllib.request.*"),
        ("from pathlib import Path", "pathlib.Path"),
        ("open('x')", "builtins.open"),
        ("print('x')", "builtins.print"),
    ],
)
def test_an_effect_is_seen_through_any_spelling(source: str, name: str) -> None:
    assert name in [found for _, found in effects(source)]


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import UTC, datetime, timedelta\ndatetime(2024, 1, 1, tzinfo=UTC) + timedelta(1)",
        "import uuid\nuuid.uuid5(uuid.NAMESPACE_URL, 'x')",
        "from urllib.parse import quote\nquote('x')",
        "from archive import open\nopen('x')",
        "def decide(now, random):\n    return now.now, random.random()",
    ],
)
def test_values_and_arguments_are_no_effects(source: str) -> None:
    assert effects(source) == []
