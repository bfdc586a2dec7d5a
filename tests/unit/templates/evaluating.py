"""Short ways to evaluate a template in a test."""

from datetime import UTC, datetime

import pytest

from shared.templates.expressions import (
    Evaluation,
    EvaluationError,
    Helpers,
    TemplateSyntaxProblem,
    compile_template,
)

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
HELPERS = Helpers(now=NOW, random=lambda: 0.25)


def evaluate(text: str, **scope: object) -> Evaluation:
    return compile_template(text).evaluate(scope, HELPERS)


def value(text: str, **scope: object) -> object:
    return evaluate(text, **scope).value


def failure(text: str, **scope: object) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        evaluate(text, **scope)
    return caught.value


def problem(text: str) -> TemplateSyntaxProblem:
    with pytest.raises(TemplateSyntaxProblem) as caught:
        compile_template(text)
    return caught.value
