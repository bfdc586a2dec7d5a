"""Tools that are built in or brought by a package."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from services.worker.built_in import built_in_tools
from services.worker.settings import Settings
from services.worker.tools.noop import NoopTool
from services.worker.tools.registry import GROUP, Registry, plugged_in


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_the_built_in_tools_are_found_by_their_kind() -> None:
    tools = Registry(built_in_tools(Settings("amqp://x", "http://x", "t", "w")))

    assert tools.kinds == ("error", "http", "noop", "python", "wait")
    assert tools.find("duckdb") is None


def test_a_package_brings_a_tool_by_an_entry_point() -> None:
    (tool,) = plugged_in([point("nothing", "services.worker.tools.noop:NoopTool")])

    assert isinstance(tool, NoopTool)


@pytest.mark.parametrize("value", ["no.such.module:Tool", "services.worker.tools.noop:Nothing", "builtins:dict"])
def test_a_tool_that_cannot_be_loaded_is_left_out(value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert plugged_in([point("broken", value)]) == []
    assert caplog.records[0].getMessage() == "tool_not_loaded"
