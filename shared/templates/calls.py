"""Calling a method of a value, a macro or a loop."""

from collections.abc import Mapping

from shared.templates.access import MISSING, member
from shared.templates.loops import Loop
from shared.templates.macros import Macro
from shared.templates.methods import Method, methods_of
from shared.templates.names import did_you_mean, shown
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.undefined import Undefined


def call_method(
    run: Run, value: object, name: str, args: tuple[object, ...], kwargs: dict[str, object], label: str
) -> object:
    """Call a listed method; a method of undefined gives undefined, a key of that name is no method."""
    run.charge(1)
    if isinstance(value, Undefined):
        value.touch()
        return run.undefined(f"{label}.{name}()")
    if isinstance(value, Loop) and name == "cycle" and not kwargs:
        return value.cycle(args)
    methods = methods_of(value)
    if isinstance(value, Mapping) and member(value, name) is not MISSING:
        raise OperationError("type", f"'{label}.{name}' is a value of the mapping and cannot be called")
    method = methods.get(name)
    if method is None:
        raise _unknown(value, name, methods)
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, Undefined) and not isinstance(value, Mapping):
            raise argument.needed(f"{name}() needs a value")
    return method(run, value, *args, **kwargs)


def call_object(run: Run, value: object, args: tuple[object, ...], kwargs: dict[str, object], name: str) -> object:
    """Call what a template made itself: a macro, or its recursive loop."""
    run.charge(1)
    if isinstance(value, Macro):
        return value.call(run, args, kwargs)
    if isinstance(value, Loop) and len(args) == 1 and not kwargs:
        rendered = value.recurse(args[0])
        if rendered is not None:
            return rendered
        raise OperationError("type", "loop(…) needs a loop marked 'recursive'")
    raise OperationError("type", f"'{name}' cannot be called")


def _unknown(value: object, name: str, methods: Mapping[str, Method]) -> OperationError:
    if value is None:
        return OperationError("type", f"null has no method '{shown(name)}'")
    hint = did_you_mean(name, methods)
    message = f"{type(value).__name__} has no method '{shown(name)}' that a template may call"
    return OperationError("sandbox", f"{message}; {hint}" if hint else message)
