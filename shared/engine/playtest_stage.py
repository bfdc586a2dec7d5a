"""The stage of one test: the rehearsed executions, with outcomes from the test and stand-ins for absent children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from shared.contracts.ids import Address, parse_node
from shared.contracts.jobs import Job
from shared.contracts.outcomes import success
from shared.contracts.references import fetched, is_reference
from shared.engine.playtest_file import PlayTest
from shared.engine.playtest_outcomes import TestStopped, fresh, reply_to, view_of
from shared.engine.program import Program
from shared.engine.rehearsal import Rehearsal, Rehearsed, Reply
from shared.engine.stimuli import Cancel, Stimulus
from shared.engine.turn import Decision
from shared.language.plan import ALWAYS, ON_ERROR, Continue, Fail, Plan, Rule, Step, Task

ROOT = "e1"
MAX_DECISIONS = 200_000


class Stage(Rehearsal):
    """Runs a test's playbook to its end, or to where the test cannot go on."""

    def __init__(self, test: PlayTest) -> None:
        self._test = test
        self._children = _Children(test.children)
        self._decisions = 0
        self.answers = fresh(test.answers)
        self.unnamed: dict[str, None] = {}
        super().__init__(self._reply_to, playbooks=self._children, start=test.starts_at, env=test.env)

    def play(self) -> None:
        """Let the execution run while signals come in; raises TestStopped."""
        test = self._test
        root = self.submit(test.program, test.workload, ROOT)
        for push in test.pushes:
            self.run(until=test.starts_at + timedelta(seconds=push.after_s))
            if root.state.is_over:
                return
            if push.signal is None:
                self.tell(ROOT, Cancel("test"))
            else:
                self.signal(ROOT, push.signal, push.payload)
        self.run()

    def tell(self, execution_id: str, stimulus: Stimulus) -> Decision:
        """Give a stimulus to an execution, unless the test has gone on for too long."""
        self._decisions += 1
        if self._decisions > MAX_DECISIONS:
            raise TestStopped("end", "an end", f"none after {MAX_DECISIONS:,} decisions: the playbook goes on for ever")
        return super().tell(execution_id, stimulus)

    def played(self) -> list[Rehearsed]:
        """Return the executions of playbooks that are known, the tested one first."""
        return [found for found in self.executions.values() if not self._children.is_stand_in(found.program)]

    def resolved(self, value: Any) -> Any:
        """Return data with everything in its place that was stored elsewhere."""
        if is_reference(value):
            return self.resolved(fetched(value, self._loaded))
        if isinstance(value, dict):
            return {key: self.resolved(item) for key, item in value.items()}
        return [self.resolved(item) for item in value] if isinstance(value, list) else value

    def _loaded(self, ref: str) -> Any:
        return self.values.load(ref) if ref.startswith("loop:") else self.values.by_ref.get(ref)

    def _reply_to(self, job: Job) -> Reply:
        program, address, view = self._asked(job)
        scope = {"job": view, "workload": self.executions[ROOT].state.workload}
        for answers in self.answers:
            if answers.pattern.matches(program, address):
                answer = answers.next(scope, ends=program.is_claim(address))
                if answer is not None:
                    return reply_to(view, answer, scope)
                if answers.is_ended:
                    return Reply(success())
        if view["kind"] != "noop":
            self.unnamed.setdefault(f"{address.step}.{address.task}")
        return Reply(success())

    def _asked(self, job: Job) -> tuple[Program, Address, dict[str, Any]]:
        """Return whose attempt it is; a stand-in answers for the task that called it."""
        found = self.executions[job.execution_id]
        if not self._children.is_stand_in(found.program):
            return found.program, job.address, self.resolved(view_of(job))
        parent = found.state.parent or {}
        address = parse_node(parent["node"])
        assert address is not None
        view = {**view_of(Job(job.job_id, parent["execution_id"], address, "playbook")), **called(found)}
        return self.executions[parent["execution_id"]].program, address, self.resolved(view)


def called(child: Rehearsed) -> dict[str, Any]:
    """Return what a child playbook was given by the task that called it."""
    return {"config": {"path": child.program.plan.path}, "input": child.state.workload}


class _Children(Mapping[str, Program]):
    """The child playbooks of a test; for any other path a stand-in with one task, which the test answers."""

    def __init__(self, given: Mapping[str, Program]) -> None:
        self._given = given
        self._stand_ins: dict[str, Program] = {}

    def is_stand_in(self, program: Program) -> bool:
        """Say whether a program only stands for one that is not there."""
        return any(program is other for other in self._stand_ins.values())

    def __getitem__(self, path: str) -> Program:
        if path in self._given:
            return self._given[path]
        if path not in self._stand_ins:
            task = Task("outcome", "noop", rules=(Rule(ON_ERROR, Fail()), Rule(ALWAYS, Continue())))
            self._stand_ins[path] = Program(Plan(path, "outcome", (Step("outcome", (task,)),), path))
        return self._stand_ins[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __bool__(self) -> bool:
        return True
