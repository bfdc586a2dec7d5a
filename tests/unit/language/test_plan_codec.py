"""The Plan as JSON: nothing is lost, equal meanings are equal, and the encoding of yesterday can be read tomorrow."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from shared.language.codec import UnknownPlanError, digest, plan_from_json, plan_text, plan_to_json
from shared.language.place import NOWHERE, Place
from shared.language.plan import PLAN_VERSION, Condition, Plan
from tests.support.language import of_keys, of_steps, plan_of
from tests.support.playbooks import EVERYTHING, VALID

GOLDEN = Path(__file__).parents[2] / "golden" / "plan_v1.json"
SMALL = of_keys("retry: 5")


@pytest.mark.parametrize("name", VALID)
def test_a_plan_survives_its_encoding(name: str) -> None:
    plan = plan_of(VALID[name])

    again = plan_from_json(json.loads(plan_text(plan)))
    assert again == plan
    assert hash(again) == hash(plan)
    assert plan_text(again) == plan_text(plan)


@pytest.mark.parametrize("name", VALID)
def test_a_plan_is_hashable_and_the_same_every_time(name: str) -> None:
    assert len({plan_of(VALID[name]), plan_of(VALID[name])}) == 1
    assert digest(plan_of(VALID[name])) == digest(plan_of(VALID[name]))


def test_what_people_see_of_the_source_survives_too() -> None:
    plan = plan_of(of_steps("- {step: a, desc: what for, next: [{step: a, when: true}]}"))
    again = plan_from_json(json.loads(plan_text(plan)))

    assert again.steps[0].description == "what for"
    assert again.steps[0].next.arcs[0].when.text == "true"
    assert again.steps[0].place == Place(2, 5)
    assert again.steps[0].next.arcs[0].place == Place(2, 45)


def test_places_do_not_compare() -> None:
    one, other = plan_of("workflow: [{step: a, tool: http, url: '{{ x }}'}]"), plan_of(
        "\n\nworkflow:\n  - step: a\n    tool: http\n    url: '{{ x }}'\n"
    )  # fmt: skip

    assert one == other
    assert hash(one) == hash(other)
    assert one.steps[0].place != other.steps[0].place
    assert digest(one) != digest(other)


def test_meaning_does_compare() -> None:
    assert plan_of(of_keys("retry: 5")) != plan_of(of_keys("retry: 4"))
    assert plan_of(of_keys("retry: {jitter: false}")) != plan_of(of_keys("retry: true"))


def test_fields_at_their_default_are_left_out() -> None:
    data = plan_to_json(plan_of("workflow: [{step: a}]"))

    assert data == {
        "v": 1,
        "plan": {
            "$": "Plan",
            "name": "playbook",
            "entry": "a",
            "steps": [{"$": "Step", "name": "a", "place": [1, 12]}],
        },
    }


def test_the_text_is_canonical_json() -> None:
    text = plan_text(plan_of(EVERYTHING))

    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def test_the_digest_of_a_playbook_is_known() -> None:
    assert digest(plan_of(SMALL)) == "368bc51f4a339d2d1927d8dd957ef27aaecbdf368cc33e77b50498e9a9971ebc"


def test_the_encoding_of_version_one_is_kept() -> None:
    """The golden file guards plans that are stored; a change of it needs a new version and a reader of the old one."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    plan = plan_of(EVERYTHING)

    assert plan_to_json(plan) == stored
    assert plan_from_json(stored) == plan


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "plan",
        {},
        {"v": 1},
        {"v": PLAN_VERSION + 1, "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": []}},
        {"v": 0, "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": []}},
        {"v": True, "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": []}},
        {"v": "1", "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": []}},
        {"v": 1, "plan": {"$": "Plan"}},
        {"v": 1, "plan": {"$": "Nobody"}},
        {"v": 1, "plan": {"name": "a"}},
        {"v": 1, "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": [], "colour": "red"}},
        {"v": 1, "plan": {"$": "Step", "name": "a"}},
        {"v": 1, "plan": {"$": [], "name": "a"}},
        {"v": 1, "plan": {"$": "Plan", "name": "a", "entry": "a", "steps": [{"$": "Step", "name": "a", "place": 5}]}},
    ],
)
def test_what_is_no_plan_of_this_version_is_refused(data: object) -> None:
    with pytest.raises(UnknownPlanError):
        plan_from_json(data)


def test_the_words_of_a_condition_do_not_compare() -> None:
    assert Condition("any", text="else") == Condition("any", text="true")


def test_a_step_is_found_by_its_name() -> None:
    plan = plan_of(of_steps("- step: a\n- step: b"))

    assert plan.step("b") == plan.steps[1]
    assert plan.step("c") is None


def test_a_plan_without_places_is_smaller_and_equal() -> None:
    plan = plan_of(SMALL)
    bare = replace(plan, steps=tuple(replace(step, place=NOWHERE) for step in plan.steps))

    assert isinstance(bare, Plan)
    assert bare == plan
    assert len(plan_text(bare)) < len(plan_text(plan))
