"""What a playbook may say to the tool `greet`."""

from __future__ import annotations

from shared.language.kinds import Kind
from shared.language.scalars import COUNT, TEXT
from shared.language.shapes import Choice, Field

LANGUAGES = ("en", "de", "fr")

GREET = Kind(
    "greet",
    "Greet somebody.",
    {
        "who": Field(TEXT, "Whom to greet."),
        "language": Field(Choice(LANGUAGES, what="language"), "In which language; en unless said otherwise."),
        "times": Field(COUNT, "How often; once unless said otherwise."),
    },
    one_of=(("who",),),
)
