"""What the language lets a playbook say and what a tool or sink takes are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from services.worker.built_in import built_in_sinks, built_in_tools
from services.worker.late import Late
from services.worker.settings import Settings
from services.worker.tools.configs import Config
from services.worker.values import MemoryValues
from shared.language.kinds import BUILT_IN, Kind

SETTINGS = Settings("amqp://x", "http://x", "t", "w")
# Every task may say how long its parts may take; the runner keeps the time for those that do not ask.
OF_EVERY_TASK = {"timeout"}
# What a sink stores reaches it beside its configuration, so that its model may know of it or not.
OF_EVERY_SINK = {"data"}


def made(things: Sequence[Any]) -> list[Any]:
    return [thing.get() if isinstance(thing, Late) else thing for thing in things]


def modelled(things: Sequence[Any], kinds: Mapping[str, Kind]) -> list[Any]:
    return [
        pytest.param(kinds[thing.kind], thing.config_model, id=thing.kind)
        for thing in made(things)
        if thing.config_model is not None
    ]


def names(model: type[Config]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(("kind", "model"), modelled(built_in_tools(SETTINGS, MemoryValues()), BUILT_IN.tools))
def test_a_tool_takes_exactly_the_fields_of_its_kind(kind: Kind, model: type[Config]) -> None:
    assert names(model) - OF_EVERY_TASK == set(kind.fields) - OF_EVERY_TASK


@pytest.mark.parametrize(("kind", "model"), modelled(built_in_sinks(SETTINGS), BUILT_IN.sinks))
def test_a_sink_takes_exactly_the_fields_of_its_kind(kind: Kind, model: type[Config]) -> None:
    either_way = OF_EVERY_TASK | OF_EVERY_SINK

    assert names(model) - either_way == set(kind.fields) - either_way


def test_models_are_found() -> None:
    tools = made(built_in_tools(SETTINGS, MemoryValues()))
    with_model = {tool.kind for tool in tools if tool.config_model is not None}

    assert "postgres" in with_model


@pytest.mark.parametrize("thing", [*built_in_tools(SETTINGS, MemoryValues()), *built_in_sinks(SETTINGS)])
def test_what_is_made_late_is_of_the_kind_that_it_is_known_by(thing: Any) -> None:
    assert made([thing])[0].kind == thing.kind
