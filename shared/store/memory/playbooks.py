"""The catalogue of playbooks in memory."""

from __future__ import annotations

import json
from typing import Any

from typing_extensions import override

from shared.store.encoding import checked_text, cursor_of, json_text, parts_of
from shared.store.memory.kept import Memory
from shared.store.port import Playbooks
from shared.store.records import NewPlaybook, Page, PlaybookVersion


class MemoryPlaybooks(Memory, Playbooks):
    """Versions by path, each text once."""

    @override
    async def register(self, playbook: NewPlaybook) -> PlaybookVersion:
        for text in (playbook.path, playbook.source, playbook.name or ""):
            checked_text(text, "the playbook")
        plan = json_text(playbook.plan, "the plan")
        known = self._playbooks.setdefault(playbook.path, [])
        if known and known[-1][0].source == playbook.source and known[-1][0].digest == playbook.digest:
            return known[-1][0]
        version = PlaybookVersion(
            path=playbook.path,
            version=len(known) + 1,
            name=playbook.name,
            source=playbook.source,
            digest=playbook.digest,
            labels=dict(playbook.labels),
            created_at=self._now(),
        )
        known.append((version, plan))
        return version

    @override
    async def playbook(self, path: str, version: int | None = None) -> PlaybookVersion | None:
        known = self._playbooks.get(path, [])
        return next((item for item, _ in reversed(known) if version in (None, item.version)), None)

    @override
    async def plan(self, digest: str) -> dict[str, Any] | None:
        for known in self._playbooks.values():
            for item, plan in known:
                if item.digest == digest:
                    found: dict[str, Any] = json.loads(plan)
                    return found
        return None

    @override
    async def playbooks(self, limit: int = 100, cursor: str | None = None) -> Page[PlaybookVersion]:
        after = "" if cursor is None else str(parts_of(cursor, 1)[0])
        paths = sorted(path for path, known in self._playbooks.items() if known and path > after)
        shown = [self._playbooks[path][-1][0] for path in paths[:limit]]
        return Page(shown, cursor_of(shown[-1].path) if len(paths) > limit else None)

    @override
    async def versions(self, path: str) -> list[PlaybookVersion]:
        return [item for item, _ in reversed(self._playbooks.get(path, []))]
