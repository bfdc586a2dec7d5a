"""Playbooks on their way into the catalogue: compiled, judged, stored."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from services.ingest.kinds import known_kinds
from services.ingest.models import PATH_PATTERN
from services.ingest.parts import Parts
from services.ingest.problems import ErrorItem, Problem, diagnosed, invalid
from shared.language.codec import digest, plan_to_json
from shared.language.compile import Compiled, compile_playbook
from shared.language.diagnostics import Diagnostic
from shared.language.lint.run import lint
from shared.language.plan import Plan
from shared.store.records import NewPlaybook, PlaybookVersion

INLINE = "inline"
MAX_PATH_CHARS = 200
FILE = "playbook.yaml"

_PATH = re.compile(PATH_PATTERN)
# What follows a path in addresses of the REST interface.
_RESERVED = re.compile(r"(^|/)versions(/\d+)?$")


@dataclass(frozen=True, slots=True)
class Judged:
    """A text, what became of it, and all advice about it."""

    source: str
    compiled: Compiled
    advice: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of the catalogue, and whether it is new."""

    version: PlaybookVersion
    plan: Plan
    advice: tuple[Diagnostic, ...]
    is_new: bool


async def judge(source: str | bytes) -> Judged:
    """Compile and lint a playbook, in a thread, for a large one takes a while."""
    return await asyncio.to_thread(_judge, source)


async def register(
    parts: Parts, source: str | bytes, path: str | None = None, *, is_inline: bool = False, at: str | None = None
) -> Registered:
    """Store a playbook; raise the problem that says what is wrong with it, and at which field of the request."""
    judged = await judge(source)
    plan = judged.compiled.plan
    if plan is None:
        raise unfit(judged.compiled, at)
    identity = digest(plan)
    place = f"{INLINE}/{identity[:12]}" if is_inline else path_of(plan, path)
    before = await parts.store.playbook(place)
    labels = dict(plan.labels)
    new = NewPlaybook(place, judged.source, plan_to_json(plan), identity, plan.name, labels)
    version = await parts.store.register(new)
    parts.plans.remember(identity, plan)
    return Registered(version, plan, judged.advice, before is None or before.version != version.version)


def path_of(plan: Plan, asked: str | None) -> str:
    """Return the place of a playbook: what its text says, or what was asked for, or its name."""
    if plan.path is not None and asked is not None and plan.path != asked:
        raise invalid("path", f"the playbook says its path is '{plan.path}', not '{asked}'")
    path = plan.path or asked or plan.name
    if len(path) > MAX_PATH_CHARS or not _PATH.search(path):
        hint = "words of letters, digits, _ . and -, joined by /"
        raise invalid("path", f"'{path[:80]}' cannot be the path of a playbook", hint)
    if _RESERVED.search(path):
        raise invalid("path", f"'{path[:80]}' cannot be told from the address of a version", "choose another last word")
    return path


def unfit(compiled: Compiled, at: str | None = None) -> Problem:
    """Return the problem of a playbook that does not compile."""
    errors = diagnosed(compiled.errors, at)
    first = errors[0] if errors else ErrorItem(message="no reason was given")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(422, f"the playbook is wrong at line {first.line}: {first.message}{more}", errors=errors)


def _judge(source: str | bytes) -> Judged:
    compiled = compile_playbook(source, FILE, known_kinds())
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    return Judged(text, compiled, lint(compiled))
