"""Every playbook of the documentation runs, every piece of one compiles, every command does what the page says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aio_pika
import pytest
import yaml

from shared.language.compile import compile_playbook
from shared.language.diagnostics import render
from tests.support.documents import Block, Command, blocks, commands, pages
from tests.support.fragments import completed, is_playbook, is_test_file
from tests.support.http_server import Answer, Request, answer_json
from tests.support.page_commands import NOT_CHECKED, Stage, assert_said
from tests.support.rabbit import Room
from tests.support.repository import ROOT, shown
from tests.support.standing import Standing, served

pytestmark = pytest.mark.timeout(240)

PAGES = [page for page in pages() if blocks(page)]
# Files of examples are run by tests of their own: tests/e2e/test_examples.py, tests/unit/engine/test_playtests.py.
EXAMPLES = {path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.yaml")}
ROWS = [{"country": "CH", "last": "2024-01-01", "amount": 12.5}]
# What playbooks end with, unless their page shows it.
RESULTS: dict[str, Any] = {
    "artifact_example": 50000,
    "duckdb_tool": [{"country": "AT", "last": "2024-01-02", "amount": 40}, *ROWS],
    "duckdb_sink": 30,
    "file_sink": 30,
    "http_tool": {"id": 17},
    "language_example": {"sum": 13, "last": 9},
    "noop_example": "many",
    "playbook_example": [1, 4, 9],
    "postgres_sink": 30,
    "postgres_tool": {
        "sales": [{"day": "2024-01-01", "amount": 12.5, "note": {"source": ["web", "app"]}}],
        "counted": 10,
    },
    "python_example": 12,
    "shell_example": "2 names",
    "square": 0,
    "wait_example": "nobody",
    "workbook_example": 40,
}
# These end with what they sent, which their tests below look at.
SENT = {"http_sink", "rabbitmq_sink", "rabbitmq_tool"}


@dataclass
class Page:
    """The files of a page that were written to its folder, and which of them a command ran."""

    written: dict[str, str] = field(default_factory=dict)
    tests: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)

    def begin(self, file: str) -> None:
        """Note that a file is written, once more maybe; what it said before must have been run by then."""
        assert file not in self.written.keys() | self.tests or file in self.ran, f"{file} is written anew before it ran"
        self.ran.discard(file)


@pytest.fixture
def stage(system: Standing, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Give a folder beside the examples in which the commands of a page run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return Stage(system, tmp_path, database)


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_a_page_holds_when_it_is_followed_from_top_to_bottom(path: Path, stage: Stage) -> None:
    page = Page()
    for block in blocks(path):
        if block.kind == "yaml":
            place_block(block, page, stage, shown(path))
        for command in commands(block):
            follow(command, page, stage)
    for file in page.tests - page.ran:
        follow(Command(f"redrive test {file}", (), 0), page, stage)
    for file, name in page.written.items():
        if file not in page.ran and name not in SENT:
            run_by_itself(stage, file, name)


def place_block(block: Block, page: Page, stage: Stage, where: str) -> None:
    """Check a block and write it to the folder, if it is a file of its own."""
    if block.text in EXAMPLES:
        return
    data = yaml.safe_load(block.text)
    if is_test_file(data):
        file = block.file or f"test_{block.line}.yaml"
        page.begin(file)
        page.tests.add(file)
        stage.folder.joinpath(file).write_text(block.text, encoding="utf-8")
        return
    text = block.text if is_playbook(data) else completed(data)
    found = compile_playbook(text)
    assert found.plan is not None, f"{where}:{block.line}\n{render(found.errors, text)}"
    if is_playbook(data):
        file = block.file or f"{data['metadata']['name']}.yaml"
        page.begin(file)
        stage.folder.joinpath(file).write_text(block.text, encoding="utf-8")
        page.written[file] = data["metadata"]["name"]
        if file == "fetch_users.yaml":
            wrong = block.text.replace("do: retry", "do: rety")
            stage.folder.joinpath("fetch_users_wrong.yaml").write_text(wrong, encoding="utf-8")


def follow(command: Command, page: Page, stage: Stage) -> None:
    stage.follow(command)
    if command.text.startswith(("redrive run ", "redrive test ")):
        file = command.text.split()[2]
        page.ran.add(file)
        if page.written.get(file) in RESULTS:
            assert json.loads(stage.printed) == RESULTS[page.written[file]]


def run_by_itself(stage: Stage, file: str, name: str) -> None:
    """Run a playbook against a service that answers what the pages speak of, and compare its result."""
    assert name in RESULTS, f"{file}: say in RESULTS what it ends with"
    stage.system.keep("orders_api", "bearer", token="a-token-of-the-tests")
    text = stage.folder.joinpath(file).read_text(encoding="utf-8")
    stage.system.register(text)
    with served(outside()) as api:
        given = [f"--set=api_url={api.url}"] if "api_url" in text else []
        found = stage.system.run(str(stage.folder / file), *given)

    assert (found["status"], found["result"]) == ("completed", RESULTS[name]), found


def outside() -> Any:
    """Return how a service answers that is busy at first and then takes orders."""
    seen: list[str] = []

    def answer(request: Request) -> Answer:
        seen.append(request.path)
        if request.path == "/orders":
            assert request.headers["authorization"] == "Bearer a-token-of-the-tests"
            return Answer(503, headers={"Retry-After": "0"}) if len(seen) == 1 else answer_json({"id": 17}, 201)
        return answer_json({"users": [{"id": 1}, {"id": 2}]})

    return answer


def example_of(page: str) -> str:
    """Return the playbook of a page."""
    (block,) = (block for block in blocks(ROOT / "docs" / page) if block.kind == "yaml")
    return block.text


def test_the_http_sink_of_its_page_sends_the_rows(system: Standing) -> None:
    system.keep("warehouse", "bearer", token="another-token-of-the-tests")

    with served(outside()) as api, served(lambda request: Answer(204)) as warehouse:
        workload = {"api_url": api.url, "sink_url": warehouse.url}
        ended = system.ended(system.submit(example_of("sinks/http.md"), workload))

    assert ended["status"] == "completed", ended
    (sent,) = warehouse.requests
    assert (sent.path, sent.json) == ("/users/batch", [{"id": 1}, {"id": 2}])
    assert sent.headers["authorization"] == "Bearer another-token-of-the-tests"


def test_the_rabbitmq_tool_and_sink_of_their_pages_publish(system: Standing, broker: Room) -> None:
    system.keep("shop_broker", "rabbitmq", url=broker.url)
    asyncio.run(_declared(broker.url))

    with served(outside()) as api:
        ended = [
            system.ended(system.submit(example_of("tools/rabbitmq.md"))),
            system.ended(system.submit(example_of("sinks/rabbitmq.md"), {"api_url": api.url})),
        ]

    assert [found["status"] for found in ended] == ["completed", "completed"], ended
    assert asyncio.run(_bodies(broker.url)) == [b'{"id":17,"total":99.5}', b'[{"id":1},{"id":2}]']


async def _declared(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("taken", durable=True)
        for name, key in (("orders", "orders.created"), ("users", "users.page")):
            exchange = await channel.declare_exchange(name, "direct", durable=True)
            await queue.bind(exchange, key)


async def _bodies(url: str) -> list[bytes]:
    async with await aio_pika.connect(url) as connection:
        queue = await (await connection.channel()).get_queue("taken")
        messages = [await queue.get(no_ack=True) for _ in range(2)]
        return [message.body.replace(b": ", b":").replace(b", ", b",") for message in messages if message is not None]


def test_a_command_that_nobody_knows_is_a_failure(stage: Stage) -> None:
    for text in ("frobnicate --all", "make nonsense", "redrive nonsense", "redrive dev --nonsense", "docker run x"):
        with pytest.raises((AssertionError, SystemExit)):
            stage.follow(Command(text, (), 1))


def test_output_that_is_not_said_is_a_failure() -> None:
    assert_said(("    0.11 s  a: started", "…", "b at 127.0.0.1:80"), "    7.20 s  a: started\nx\nb at 127.0.0.1:9000")
    with pytest.raises(AssertionError, match="not said"):
        assert_said(("b", "a"), "a\nb")


def test_everything_that_is_not_checked_is_on_a_page_and_has_a_reason() -> None:
    said = {part for page in PAGES for block in blocks(page) for command in commands(block)
            for part in command.text.split(" && ")}  # fmt: skip

    assert set(NOT_CHECKED) <= said
    assert all(NOT_CHECKED.values())


@pytest.mark.parametrize("text", ["colour: red\n", "- 1\n- 2\n", "services: {web: {image: x}}\n"])
def test_yaml_that_belongs_nowhere_is_a_failure(text: str) -> None:
    with pytest.raises(ValueError, match="no playbook"):
        completed(yaml.safe_load(text))
