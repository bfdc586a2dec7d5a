"""Child executions that decisions ask for: found in the catalogue, or an outcome that says they are not there."""

from __future__ import annotations

from collections.abc import Sequence

from shared.contracts.events import Event
from shared.contracts.ids import fact_id, parse_node
from shared.contracts.outcomes import failure
from shared.contracts.payloads import ExecutionRequested, TaskProcessed
from shared.engine.decide import requested
from shared.engine.turn import Child, Decision
from shared.engine.workload import merged_workload
from shared.language.codec import plan_from_json
from shared.store.port import Store
from shared.store.records import NewExecution


class Nursery:
    """Makes the executions that decisions call for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def settle(self, decisions: Sequence[Decision], children: list[NewExecution], facts: list[Event]) -> None:
        """Add the executions to create, or the facts that tell the parent why there is none."""
        for decision in decisions:
            for child in decision.children:
                await self._settle(child, children, facts)

    async def _settle(self, child: Child, children: list[NewExecution], facts: list[Event]) -> None:
        version = int(child.version) if str(child.version or "").isdigit() else None
        found = await self._store.playbook(child.path, version)
        plan = await self._store.plan(found.digest) if found is not None else None
        if found is None or plan is None:
            facts.append(_no_playbook(child))
            return
        workload = merged_workload(plan_from_json(plan), child.workload)
        said = ExecutionRequested(found.digest, workload, child.parent)
        source = f"parent:{child.parent['execution_id']}"
        children.append(NewExecution(requested(child.execution_id, said, source=source), found.path, found.version))


def _no_playbook(child: Child) -> Event:
    version = f" in version {child.version}" if child.version is not None else ""
    outcome = failure("child", f"there is no playbook '{child.path}'{version}").as_json()
    return Event(
        execution_id=child.parent["execution_id"],
        payload=TaskProcessed(child.job_id, outcome),
        address=parse_node(child.parent["node"]),
        event_id=fact_id(child.job_id, "processed"),
        source="catalogue",
    )
