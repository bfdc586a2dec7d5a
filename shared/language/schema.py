"""The JSON Schema of the language, generated from the shapes that check it."""

from __future__ import annotations

from typing import Any

from shared.language.document import playbook_shape
from shared.language.kinds import BUILT_IN, Kinds
from shared.language.shapes import Definitions

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def playbook_schema(kinds: Kinds = BUILT_IN) -> dict[str, Any]:
    """Return the JSON Schema of playbooks for these kinds of tools."""
    definitions = Definitions()
    root = playbook_shape(kinds).object_schema(definitions)
    return {
        "$schema": DIALECT,
        "$id": "https://redrive.io/schema/playbook.json",
        "title": "Redrive playbook",
        **root,
        "$defs": definitions.parts,
    }
