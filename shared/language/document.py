"""The surface of the language: which keys stand where in a playbook, in every spelling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from shared.language.diagnostics import Report
from shared.language.kinds import Kinds
from shared.language.nodes import Entry, Mapping, Node, Scalar
from shared.language.predicates import is_list, is_mapping
from shared.language.route_shapes import JOIN, LOOP, NEXT
from shared.language.rule_shapes import POLICY, SET
from shared.language.scalars import ANY, CONDITION, DURATION, FIXED_DURATION, NAME, SINGLE, SWITCH, TEXT, WHOLE
from shared.language.shapes import (
    Case,
    Choice,
    Definitions,
    Either,
    Field,
    ListOf,
    MapOf,
    Record,
    Schema,
    Shape,
    wrong_type,
)
from shared.language.task_shapes import KIND_KEYS, LabelledShape, TaskShape, is_labelled, task_fields

API_VERSIONS = ("redrive.io/v1", "noetl.io/v1", "noetl.io/v2")

ADMISSION = Record("admission", {"allow": Field(SWITCH, "Whether the token may enter.", required=True)})
ADMIT_RULE = Record(
    "admission rule",
    {
        "when": Field(CONDITION, "When it applies."),
        "then": Field(ADMISSION, "Whether the token may enter."),
        "else": Field(
            Record(
                "else admission",
                {
                    "then": Field(ADMISSION, "Whether the token may enter."),
                    "allow": Field(SWITCH, "Whether the token may enter."),
                },
                one_of=(("then", "allow"),),
            ),
            "When no rule applied.",
        ),
    },
    one_of=(("when", "else"),),
)
STEP_POLICY = Record(
    "step policy",
    {
        **POLICY.fields,
        "admit": Field(
            Record("admit", {"rules": Field(ListOf(ADMIT_RULE), "Tried in order.", required=True)}), "Who may enter."
        ),
    },
)
STEP_FIELDS: dict[str, Field] = {
    "step": Field(NAME, "Its name.", required=True),
    "desc": Field(TEXT, "What it is for.", aliases=("description",)),
    "when": Field(CONDITION, "Admission: false skips the step."),
    "loop": Field(LOOP, "Run the pipeline once per element."),
    "set": Field(SET, "Values written after the step completed."),
    "next": Field(NEXT, "Where to go from here."),
    "join": Field(JOIN, "How tokens meet here."),
}
STEP_SPEC: dict[str, Field] = {"policy": Field(STEP_POLICY, "Admission, and rules where the step has one task.")}


@dataclass(frozen=True)
class StepShape(Shape):
    """A step: with a pipeline under `tool:`, with one tool's fields on itself, or with no tool at all."""

    kinds: Kinds
    expected: str = "a step: a mapping with step, tool, next"

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Mapping):
            wrong_type(node, self.expected, report)
            return
        entry = flat_kind(node)
        if entry is None:
            self._pipeline.check(node, report)
        else:
            self._flat.check_entry(node, entry, report)

    def schema(self, definitions: Definitions) -> Schema:
        is_flat = {
            "anyOf": [
                {"required": ["kind"]},
                {"required": ["type"]},
                {"required": ["tool"], "properties": {"tool": {"type": ["string", "number", "boolean", "null"]}}},
            ]
        }
        return {
            "if": is_flat,
            "then": self._flat.schema(definitions),
            "else": self._pipeline.schema(definitions),
        }

    @cached_property
    def _flat(self) -> TaskShape:
        name = Field(NAME, "The task's label; for kind workbook, the workbook's task.")
        return TaskShape(self.kinds, "step", (*STEP_FIELDS.items(), ("name", name)), tuple(STEP_SPEC.items()))

    @cached_property
    def _pipeline(self) -> Record:
        task = TaskShape(self.kinds)
        one = Either("a task", (Case(is_labelled, LabelledShape(task)), Case(is_mapping, task)))
        pipeline = Either("a task or a list of tasks", (Case(is_list, ListOf(one)), Case(is_mapping, one)))
        common = task_fields(self.kinds)
        spec = Record(
            "step spec",
            {
                **STEP_SPEC,
                "timeout": Field(DURATION, "How long the whole step may take."),
                "pool": Field(TEXT, "The worker pool."),
            },
        )
        fields = {
            **STEP_FIELDS,
            "tool": Field(pipeline, "The pipeline of tasks."),
            "timeout": Field(DURATION, "How long the whole step may take."),
            **{key: common[key] for key in ("eval", "retry", "sink", "pool", "input")},
            "spec": Field(spec, "The same options, in the newer spelling."),
        }
        return Record("step", fields)


def flat_kind(node: Mapping) -> Entry | None:
    """Return the entry that names the tool of a step whose tool's fields stand on the step itself."""
    for key in KIND_KEYS:
        entry = node.entry(key)
        if entry is not None and (key != "tool" or isinstance(entry.value, Scalar)):
            return entry
    return None


@dataclass(frozen=True)
class WorkbookShape(Shape):
    """A named task of the workbook: `{name, tool: {kind, …}}` or `{name, kind, …}`."""

    kinds: Kinds
    expected: str = "a mapping with name and tool"

    def check(self, node: Node, report: Report) -> None:
        if isinstance(node, Mapping) and isinstance(node.get("tool"), Mapping):
            self._nested.check(node, report)
        else:
            self._flat.check(node, report)

    def schema(self, definitions: Definitions) -> Schema:
        return {
            "if": {"required": ["tool"], "properties": {"tool": {"type": "object"}}},
            "then": self._nested.schema(definitions),
            "else": self._flat.schema(definitions),
        }

    @cached_property
    def _nested(self) -> Record:
        task = Field(TaskShape(self.kinds), "The task.", required=True)
        name = Field(NAME, "Its name.", required=True, aliases=("task",))
        return Record(
            "workbook entry",
            {"name": name, "desc": Field(TEXT, "What it is for.", aliases=("description",)), "tool": task},
        )

    @cached_property
    def _flat(self) -> TaskShape:
        extra = (("name", Field(NAME, "Its name.", required=True, aliases=("task",))),)
        return TaskShape(self.kinds, "workbook task", extra)


EXECUTOR_SPEC = Record(
    "executor spec",
    {
        "entry_step": Field(TEXT, "Where execution begins."),
        "strict": Field(SWITCH, "Whether an undefined value is an error."),
        "on_failure": Field(Choice(("fail_fast", "finish"), what="on_failure"), "What other branches do."),
        "reducers": Field(
            MapOf(Choice(("append", "sum", "max", "min", "last"), what="reducer")), "How keys of `ctx` combine."
        ),
        "pool": Field(TEXT, "The worker pool of tasks that name none."),
        "limits": Field(
            Record(
                "limits",
                {
                    "max_steps": Field(WHOLE, "Step runs in all."),
                    "timeout": Field(FIXED_DURATION, "The whole execution."),
                },
            ),
            "Bounds of one execution.",
        ),
    },
)


@lru_cache(maxsize=8)
def playbook_shape(kinds: Kinds) -> Record:
    """Return the shape of a whole playbook for these kinds of tools."""
    metadata = Record(
        "metadata",
        {
            "name": Field(TEXT, "Its name."),
            "path": Field(TEXT, "Its place in the catalogue."),
            "description": Field(TEXT, "What it is for.", aliases=("desc",)),
            "labels": Field(MapOf(SINGLE), "For finding it."),
            "version": Field(SINGLE, "The author's own version."),
        },
    )
    credential = Record(
        "keychain entry",
        {
            "name": Field(NAME, "The name used in the playbook.", required=True),
            "kind": Field(TEXT, "What kind of credential it is.", aliases=("type",)),
            "credential": Field(TEXT, "The stored credential, if it is called otherwise."),
            "desc": Field(TEXT, "What it is for.", aliases=("description",)),
        },
    )
    executor = Record(
        "executor",
        {
            "profile": Field(TEXT, "Read by other systems; no meaning here."),
            "version": Field(SINGLE, "Read by other systems; no meaning here."),
            "spec": Field(EXECUTOR_SPEC, "Playbook-wide switches."),
        },
    )
    return Record(
        "playbook",
        {
            "apiVersion": Field(Choice(API_VERSIONS, what="apiVersion"), "The version of the language."),
            "kind": Field(Choice(("Playbook",), what="kind"), "Always Playbook."),
            "metadata": Field(metadata, "Name, path, labels."),
            "workload": Field(MapOf(ANY), "Defaults, merged with what is submitted."),
            "keychain": Field(ListOf(credential), "Credentials it needs, by name."),
            "executor": Field(executor, "Playbook-wide switches."),
            "workbook": Field(ListOf(WorkbookShape(kinds)), "Named tasks that steps can call."),
            "workflow": Field(ListOf(StepShape(kinds), "a list of steps", at_least=1), "The steps.", required=True),
            "result": Field(ANY, "An expression: the result of the execution."),
        },
        "A Redrive playbook.",
    )
