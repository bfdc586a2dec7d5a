"""What can go wrong with a template.

Exception
├── TemplateSyntaxProblem   the text is no valid template; the author has to change it
├── EvaluationError         a valid template failed on this scope; becomes an outcome of its own
└── OperationError          internal: one operation failed; always translated into EvaluationError
"""

from typing import Literal

Reason = Literal["undefined", "type", "limit", "sandbox", "value"]


class TemplateSyntaxProblem(Exception):  # noqa: N818 - the author's problem, shown as such
    """Tell the author where the text stops being a template; line and column count from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: {self.message}"
        return f"{place} ({self.hint})" if self.hint else place


class EvaluationError(Exception):
    """Tell why a template gave no value on this scope."""

    def __init__(self, message: str, template: str, line: int, reason: Reason, names_in_scope: tuple[str, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.template = template
        self.line = line
        self.reason: Reason = reason
        self.names_in_scope = names_in_scope


class OperationError(Exception):
    """Tell why one operation inside a template cannot be done."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


def over_limit(what: str) -> OperationError:
    """Name the bound that a template ran into."""
    return OperationError("limit", f"the template is too expensive: {what}")
