"""Tools that are built in or brought by a package."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from services.worker.built_in import built_in_tools
from services.worker.settings import Settings
from services.worker.tools.noop import NoopTool
from services.worker.tools.registry import GROUP, Registry, plugged_in
from services.worker.values import MemoryValues
from tests.unit.worker.given import a_call


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_the_built_in_tools_are_found_by_their_kind() -> None:
    tools = Registry(built_in_tools(Settings("amqp://x", "http://x", "t", "w"), MemoryValues()))

    assert {"artifact", "error", "http", "noop", "python", "shell", "wait"} <= {*tools.kinds}
    assert tools.find("nothing_like_it") is None


def test_a_package_brings_a_tool_by_an_entry_point() -> None:
    (tool,) = plugged_in([point("nothing", "services.worker.tools.noop:NoopTool")])

    assert isinstance(tool, NoopTool)


class Kindless(NoopTool):
    kind = None  # type: ignore[assignment]


class OtherNoop(NoopTool):
    """Claims a kind that is taken."""


def test_of_two_tools_of_one_kind_the_first_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    first = NoopTool()

    assert Registry([first, OtherNoop()]).find("noop") is first
    assert caplog.records[0].getMessage() == "tool_not_loaded"


async def test_a_tool_that_is_turned_off_says_so() -> None:
    tools = Registry([NoopTool()], ["noop", "shell"])

    for kind in ("noop", "shell"):
        tool = tools.find(kind)
        assert tool is not None
        error = (await tool.run(a_call())).error or {}
        assert error["message"] == f"the tool '{kind}' is turned off on this worker (REDRIVE_DISABLED_TOOLS)"
    assert tools.kinds == ()


@pytest.mark.parametrize(
    "value",
    [
        "no.such.module:Tool",
        "services.worker.tools.noop:Nothing",
        "builtins:dict",
        "tests.unit.worker.test_registry:Kindless",
    ],
)
def test_a_tool_that_cannot_be_loaded_is_left_out(value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert plugged_in([point("broken", value)]) == []
    assert caplog.records[0].getMessage() == "tool_not_loaded"
