"""Files of playbook tests: text in, tests and findings out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from shared.contracts.events import types_named
from shared.contracts.payloads import CATALOGUE
from shared.engine.playtest_outcomes import Answer, Answers
from shared.engine.playtest_patterns import ANY_TASK, Pattern, pattern_of, tasks_meant
from shared.engine.playtest_shapes import TEST_FILE
from shared.engine.program import Program
from shared.engine.rehearsal import START
from shared.language.checks import check, report_unknown_step
from shared.language.compile import compile_playbook
from shared.language.diagnostics import Diagnostic, Report, did_you_mean
from shared.language.document import playbook_shape
from shared.language.kinds import BUILT_IN, Kinds
from shared.language.lower.context import Lowering
from shared.language.lower.playbook import plan_of
from shared.language.lower.values import condition_of, object_of, value_of, whole_of
from shared.language.nodes import Mapping, Node, Scalar, plain, text_of
from shared.language.nodes import Sequence as ListNode
from shared.language.parse import parse
from shared.language.place import Place
from shared.language.shapes import wrong_type
from shared.templates.durations import parse_duration

BY_TASK = ("attempts", "delays", "calls", "sinks")
_EVENT_NAMES = (
    *CATALOGUE, *dict.fromkeys(cls.alias for cls in CATALOGUE.values()), "action_error", "action_failed", "step_failed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loaded:
    """A playbook file that a test names: how it is called when people are told of it, and what it holds."""

    file: str
    content: bytes


Load: TypeAlias = Callable[[str], Loaded | str]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with one file, and its text to show the places in."""

    text: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Push:
    """Something done to the execution from outside, some time after its start: a signal, or its cancellation."""

    after_s: float
    signal: str | None = None
    payload: Any = None


@dataclass(frozen=True, slots=True)
class PlayTest:
    """One test, ready to run."""

    name: str
    line: int
    program: Program
    children: dict[str, Program]
    workload: dict[str, Any]
    env: dict[str, str]
    answers: tuple[Answers, ...]
    pushes: tuple[Push, ...]
    starts_at: datetime
    expect: dict[str, Any]
    patterns: dict[str, Pattern]


@dataclass(slots=True)
class TestFile:
    """What became of a file: its tests, if nothing was wrong with it, and what was found."""

    __test__ = False

    file: str
    tests: tuple[PlayTest, ...] = ()
    findings: list[Findings] = field(default_factory=list)
    is_playbook: bool = False

    @property
    def ok(self) -> bool:
        """Say whether the tests can run."""
        return not self.findings


def read_tests(source: bytes, file: str, load: Load, kinds: Kinds = BUILT_IN) -> TestFile:
    """Return the tests of a file, or everything that is wrong with it and with the playbooks it names."""
    found = TestFile(file)
    report = Report(file)
    root = parse(source, report)
    if root is not None and not isinstance(root, Mapping):
        wrong_type(root, "a test file: a mapping with playbook and tests", report)
    elif root is not None and root.get("workflow") is not None and root.get("tests") is None:
        found.is_playbook = True
        place = (root.entry("workflow") or root).place
        report.error(
            "not-a-test", place, "this is a playbook, not a file of tests", "name it in a test: playbook: FILE"
        )
    elif root is not None:
        found.tests = _Reader(root, report, load, kinds, found.findings).tests()
    if report.diagnostics():
        found.findings.insert(0, Findings(_text(source), report.diagnostics()))
    return found


class _Reader:
    """Reads one file; what is wrong with it goes to the report, what is wrong with playbooks to `others`."""

    def __init__(self, root: Mapping, report: Report, load: Load, kinds: Kinds, others: list[Findings]) -> None:
        self._root = root
        self._report = report
        self._load = load
        self._kinds = kinds
        self._others = others
        self._programs: dict[str, Program | None] = {}

    def tests(self) -> tuple[PlayTest, ...]:
        """Return the tests, as far as they can be read."""
        TEST_FILE.check(self._root, self._report)
        program = self._tested()
        if program is None or self._report.has_errors or self._others:
            return ()
        listed = self._root.get("tests")
        assert isinstance(listed, ListNode)
        seen: dict[str, Place] = {}
        out: list[PlayTest] = []
        for node in listed.items:
            assert isinstance(node, Mapping)
            self._check_name(node, seen)
            out.append(self._test(node, program))
        return tuple(out)

    def _check_name(self, node: Mapping, seen: dict[str, Place]) -> None:
        named = node.get("name")
        name = text_of(named) or ""
        if named is not None and name in seen:
            message = f"the test in line {seen[name].line} has this name too"
            self._report.error("said-twice", named.place, message, "every test has its own name")
        elif named is not None:
            seen[name] = named.place

    def _tested(self) -> Program | None:
        inline = self._root.get("inline")
        if isinstance(inline, Mapping):
            return self._inlined(inline)
        named = self._root.get("playbook")
        return self._program(named) if isinstance(named, Scalar) and isinstance(named.value, str) else None

    def _inlined(self, node: Mapping) -> Program | None:
        report = Report(self._report.file)
        playbook_shape(self._kinds).check(node, report)
        plan = plan_of(node, Lowering(report, Report(self._report.file), self._kinds))
        check(plan, node.place, report)
        for item in report.diagnostics():
            self._report.error(item.code, Place(item.line, item.column, item.width), item.message, item.hint)
        return None if report.has_errors else Program(plan)

    def _program(self, named: Scalar) -> Program | None:
        path = str(named.value)
        if path not in self._programs:
            self._programs[path] = self._compiled(path, named)
        return self._programs[path]

    def _compiled(self, path: str, named: Scalar) -> Program | None:
        loaded = self._load(path)
        if isinstance(loaded, str):
            self._report.error("unreadable", named.place, f"the playbook {loaded}")
            return None
        compiled = compile_playbook(loaded.content, loaded.file, self._kinds)
        if compiled.plan is None:
            self._report.error("invalid-playbook", named.place, "this playbook is not valid", "see its own problems")
            self._others.append(Findings(_text(loaded.content), compiled.errors))
            return None
        return Program(compiled.plan)

    def _test(self, node: Mapping, program: Program) -> PlayTest:
        children = self._children(node)
        programs = [program, *children.values()]
        expect = node.get("expect")
        assert isinstance(expect, Mapping)
        self._check_steps(expect, program)
        self._check_events(expect)
        starts = text_of(self._shared("starts_at", node))
        return PlayTest(
            name=text_of(node.get("name")) or "",
            line=node.place.line,
            program=program,
            children=children,
            workload=self._laid_over("workload", node),
            env=self._laid_over("env", node),
            answers=self._answers(node, programs),
            pushes=_pushes(node),
            starts_at=datetime.fromisoformat(starts) if starts else START,
            expect=_data(expect),
            patterns=self._patterns(expect, programs),
        )

    def _shared(self, key: str, node: Mapping) -> Node | None:
        return node.get(key) or self._root.get(key)

    def _laid_over(self, key: str, node: Mapping) -> dict[str, Any]:
        """Return what stands in the file for all tests, with a test's own keys laid over it."""
        return {**_data(self._root.get(key)), **_data(node.get(key))}

    def _children(self, node: Mapping) -> dict[str, Program]:
        out: dict[str, Program] = {}
        for place in (self._root, node):
            listed = place.get("playbooks")
            for named in listed.items if isinstance(listed, ListNode) else ():
                assert isinstance(named, Scalar)
                program = self._program(named)
                if program is None:
                    continue
                if program.plan.path is None:
                    message = "this playbook has no metadata.path, so no other playbook can call it"
                    self._report.error("missing-key", named.place, message)
                else:
                    out[program.plan.path] = program
        return out

    def _answers(self, node: Mapping, programs: Sequence[Program]) -> tuple[Answers, ...]:
        found: dict[str, Answers] = {}
        for place in (self._root, node):
            given = place.get("outcomes")
            for entry in given.entries if isinstance(given, Mapping) else ():
                pattern = pattern_of(entry.key, entry.place, programs, self._report)
                if pattern is None:
                    continue
                self._check_asked(pattern, entry.place, programs)
                items = entry.value.items if isinstance(entry.value, ListNode) else (entry.value,)
                found[entry.key] = Answers(pattern, tuple(self._answer(item) for item in items))
        return tuple(found.values())

    def _check_asked(self, pattern: Pattern, place: Place, programs: Sequence[Program]) -> None:
        if pattern.text != ANY_TASK and {task.kind for _, task in tasks_meant(pattern, programs)} == {"wait"}:
            hint = "simulated time passes by itself; 'signals' sends what it waits for"
            self._report.error("not-asked", place, "a wait has no outcome of its own", hint)

    def _answer(self, node: Node) -> Answer:
        assert isinstance(node, Mapping)
        self._check_belongs(node, node.get("http"), ("headers", "body"))
        error = node.get("error")
        if isinstance(error, Mapping):
            self._check_belongs(error, error.get("http"), ("headers",))
        when = node.get("when")
        takes = node.get("takes")
        said = {
            entry.key: value_of(entry.value, self._report)
            for entry in node.entries
            if entry.key not in ("when", "takes", "times")
        }
        return Answer(
            said=object_of(said),
            takes_s=_seconds(takes) if takes is not None else 0.0,
            when=condition_of(when, self._report) if when is not None else None,
            times=whole_of(node.get("times")) or 1,
        )

    def _check_belongs(self, node: Mapping, http: Node | None, keys: tuple[str, ...]) -> None:
        for key in keys:
            entry = node.entry(key)
            if entry is not None and http is None:
                message = f"'{key}' belongs to an HTTP answer, and there is no 'http' here"
                self._report.error("missing-key", entry.place, message, "add the status: http: 200")

    def _patterns(self, expect: Mapping, programs: Sequence[Program]) -> dict[str, Pattern]:
        out: dict[str, Pattern] = {}
        for key in BY_TASK:
            given = expect.get(key)
            for entry in given.entries if isinstance(given, Mapping) else ():
                pattern = pattern_of(entry.key, entry.place, programs, self._report)
                if pattern is not None:
                    out[entry.key] = pattern
        return out

    def _check_steps(self, expect: Mapping, program: Program) -> None:
        error = expect.get("error")
        listed = [expect.get("path"), expect.get("not_reached")]
        named = [item for node in listed if isinstance(node, ListNode) for item in node.items]
        failed = error.get("step") if isinstance(error, Mapping) else None
        for item in [*named, *([failed] if failed is not None else [])]:
            name = text_of(item) or ""
            if name not in program.steps:
                report_unknown_step(name, item.place, list(program.steps), self._report)

    def _check_events(self, expect: Mapping) -> None:
        given = expect.get("events")
        for item in given.items if isinstance(given, ListNode) else ():
            name = text_of(item) or ""
            if not types_named(name):
                hint = did_you_mean(name, _EVENT_NAMES, "events")
                self._report.error("unknown-event", item.place, f"no event '{name}'", hint)


def _pushes(node: Mapping) -> tuple[Push, ...]:
    out: list[Push] = []
    signals = node.get("signals")
    for item in signals.items if isinstance(signals, ListNode) else ():
        assert isinstance(item, Mapping)
        payload = item.get("payload")
        said = None if payload is None else plain(payload)
        out.append(Push(_seconds(item.get("after")), text_of(item.get("name")), said))
    cancel = node.get("cancel_after")
    if cancel is not None:
        out.append(Push(_seconds(cancel)))
    return tuple(sorted(out, key=lambda push: push.after_s))


def _seconds(node: Node | None) -> float:
    return parse_duration(node.value) if isinstance(node, Scalar) else 0.0


def _data(node: Node | None) -> dict[str, Any]:
    found = plain(node) if node is not None else {}
    return found if isinstance(found, dict) else {}


def _text(source: bytes) -> str:
    return source.decode("utf-8", "replace").removeprefix("\ufeff")
