"""The tool `greet`: a typed configuration in, one outcome out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, read_config
from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome, failure, success

WORDS = {"en": "Hello", "de": "Hallo", "fr": "Bonjour"}
NOBODY = "nobody"


class GreetConfig(Config):
    """What a `greet` task may say: the fields of the kind, and `timeout`, which every task may give as a mapping."""

    who: str
    language: Literal["en", "de", "fr"] = "en"
    times: Annotated[int, Field(ge=1, le=1000)] = 1
    timeout: Any = None


class GreetTool(Tool):
    """Succeeds with greetings; fails if there is nobody to greet."""

    kind = "greet"
    config_model = GreetConfig

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, GreetConfig, call.config)
        except BadConfigError as problem:
            return problem.outcome
        if config.who == NOBODY:
            return failure("client_error", "there is nobody to greet", greet={"who": config.who})
        greetings = [f"{WORDS[config.language]}, {config.who}!"] * config.times
        return success({"greetings": greetings}, greet={"who": config.who})
