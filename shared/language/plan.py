"""The Plan: what a playbook means once its spelling is gone; frozen, hashable, comparable by meaning.

Places and the words of the source are kept for people and never compare: two spellings of one meaning are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shared.language.place import NOWHERE, Place

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Constant:
    """Data without an expression in it, as canonical JSON text."""

    json: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A text with at least one template in it, evaluated when it is needed."""

    text: str
    place: Place = field(default=NOWHERE, compare=False)
    dialect: Dialect = "canonical"


@dataclass(frozen=True, slots=True)
class Array:
    """A list in which some element holds an expression."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Object:
    """A mapping in which some value holds an expression, in the order written."""

    items: tuple[tuple[str, Value], ...]


Value: TypeAlias = Constant | Expression | Array | Object
Number: TypeAlias = int | float | Expression
Dialect: TypeAlias = Literal["canonical", "legacy"]
Jitter: TypeAlias = Literal["none", "half", "full", "equal"]

NOTHING = Constant("null")
EMPTY_OBJECT = Constant("{}")


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the outcome's status is as `on` says and the expression, if there is one, is true."""

    on: Literal["any", "error", "success", "never"] = "any"
    expression: Expression | None = None
    text: str = field(default="", compare=False)


ALWAYS = Condition()
ON_ERROR = Condition("error", text="error")
ON_SUCCESS = Condition("success", text="success")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One value written to `ctx`, to `iter`, or to a name that later tasks of the pipeline see."""

    target: Literal["ctx", "iter", "local"]
    path: tuple[str, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with the next task."""


@dataclass(frozen=True, slots=True)
class Break:
    """Complete the step or iteration now, successfully."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the step or iteration now."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Go to another task of the pipeline, after a pause if one is given."""

    to: str
    delay: Number = 0
    max_jumps: Number = 1000


@dataclass(frozen=True, slots=True)
class Retry:
    """Run the same task again after a delay, as often as is allowed."""

    attempts: Number = 3
    backoff: Literal["fixed", "linear", "exponential"] = "exponential"
    delay: Number = 1.0
    multiplier: Number = 2.0
    max_delay: Number | None = 60.0
    jitter: Jitter = "none"
    budget: Number | None = None
    on_exhausted: Continue | Break | Fail | Jump = Fail()


@dataclass(frozen=True, slots=True)
class Gather:
    """How the results of repeated calls become one."""

    strategy: Literal["append", "replace", "collect"] = "collect"
    path: tuple[str, ...] = ()
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """Run the same task again with a changed call, and gather the results of all calls."""

    max_attempts: Number = 100
    next_call: Value = EMPTY_OBJECT
    gather: Gather = Gather()
    delay: Number = 0


Directive: TypeAlias = Continue | Break | Fail | Jump | Retry | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    """When the condition holds for an outcome, the directive says what happens."""

    when: Condition
    then: Directive
    set: tuple[Assignment, ...] = ()
    label: str = field(default="", compare=False)
    place: Place = field(default=NOWHERE, compare=False)
    implicit: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the result of every successful attempt is stored."""

    kind: str
    config: Value
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Task:
    """One tool call of a pipeline with the rules that judge its outcome; `code_line` is where its code begins."""

    name: str
    kind: str
    config: Value = EMPTY_OBJECT
    input: Value = EMPTY_OBJECT
    rules: tuple[Rule, ...] = ()
    sink: Sink | None = None
    timeout: Number | None = None
    pool: Value | None = None
    set: tuple[Assignment, ...] = ()
    select: tuple[str, ...] = ()
    place: Place = field(default=NOWHERE, compare=False)
    code_line: int = field(default=0, compare=False)


RETRYABLE = "{{ outcome.error.retryable }}"
CLAIM_RULES = (
    Rule(Condition("error", Expression(RETRYABLE), RETRYABLE), Retry(jitter="half"), label="retryable", implicit=True),
    Rule(ON_ERROR, Fail(), label="default", implicit=True),
    Rule(ALWAYS, Continue(), label="default", implicit=True),
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A claiming statement that feeds a loop until it claims nothing more."""

    kind: str
    config: Value
    max_rows: Number = 1
    process: Literal["row", "frame"] = "row"
    rules: tuple[Rule, ...] = CLAIM_RULES
    timeout: Number | None = None
    pool: Value | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Run the pipeline once per element."""

    source: Value
    iterator: str = "item"
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: Number | None = None
    chunk_size: Number | None = None
    where: Condition | None = None
    tolerate: Number = 0
    tolerate_percent: bool = False
    collect: Literal["all", "none", "errors"] = "all"
    cursor: Cursor | None = None
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Arc:
    """A way from a step to another, with its guard and what it carries."""

    step: str
    when: Condition = ALWAYS
    args: Value = EMPTY_OBJECT
    set: tuple[Assignment, ...] = ()
    takes_failures: bool = False
    is_else: bool = False
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Router:
    """The arcs of a step: the first that matches fires, or all that match."""

    mode: Literal["exclusive", "inclusive"] = "exclusive"
    arcs: tuple[Arc, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """How tokens that meet at a step become one run of it."""

    mode: Literal["merge", "none", "all", "any", "count"] = "merge"
    of: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """Admits a token, or turns it away, when the condition holds."""

    when: Condition
    allow: bool
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """Admission, a pipeline of tasks, perhaps once per element, and where to go from there."""

    name: str
    tasks: tuple[Task, ...] = ()
    description: str | None = field(default=None, compare=False)
    admit: tuple[Admission, ...] = ()
    loop: Loop | None = None
    timeout: Number | None = None
    args: Value = EMPTY_OBJECT
    set: tuple[Assignment, ...] = ()
    next: Router = Router()
    join: Join = Join()
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential that the playbook needs, by name."""

    name: str
    kind: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one execution that the author may narrow."""

    max_steps: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an execution needs to know of its playbook."""

    name: str
    entry: str
    steps: tuple[Step, ...]
    path: str | None = None
    description: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    api_version: str = "redrive.io/v1"
    workload: str = "{}"
    keychain: tuple[Credential, ...] = ()
    result: Value | None = None
    strict: bool = True
    on_failure: Literal["fail_fast", "finish"] = "fail_fast"
    reducers: tuple[tuple[str, str], ...] = ()
    pool: str | None = None
    end_step: str | None = None
    limits: Limits = Limits()

    def step(self, name: str) -> Step | None:
        """Return the step of this name."""
        for step in self.steps:
            if step.name == name:
                return step
        return None
