"""What `{% macro %}` makes."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.templates.problems import OperationError
from shared.templates.run import Run


@dataclass(frozen=True, slots=True)
class Macro:
    """A piece of a template that can be called, with the variables that were visible where it was written."""

    name: str
    parameters: tuple[str, ...]
    defaults: tuple[Callable[[Run], object], ...]
    body: Callable[[Run], None]
    frames: list[dict[str, object]]
    weight: int
    levels: int

    def call(self, run: Run, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """Render the body with these arguments."""
        run.charge(self.weight)
        run.descend(self.levels)
        outer, run.frames = run.frames, [*self.frames, {}]
        run.frames[-1].update(self._bind(run, args, kwargs))
        text = run.capture(self.body)
        run.frames = outer
        run.ascend(self.levels)
        return text

    def _bind(self, run: Run, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        if len(args) > len(self.parameters) or not kwargs.keys() <= set(self.parameters[len(args) :]):
            taken = ", ".join(self.parameters) or "no arguments"
            raise OperationError("type", f"macro '{self.name}' takes {taken}")
        given = dict(zip(self.parameters, args, strict=False)) | kwargs
        first_default = len(self.parameters) - len(self.defaults)
        for position, name in enumerate(self.parameters):
            if name not in given:
                default = position - first_default
                given[name] = run.undefined(name) if default < 0 else self.defaults[default](run)
        return given
