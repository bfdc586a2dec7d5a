"""Data that passes through a playbook is data at the tool, whatever it looks like."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts.messages import MAX_MESSAGE_BYTES, encode_job
from shared.engine.rehearsal import Rehearsal
from tests.support.deciding import body, program
from tests.support.worker_inputs import SECRET, tool_inputs

KEYS = st.sampled_from(["$template", "$scope", "config", "input", "_path", "data", "body", "status_code", "x"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["{{ keychain.api.token }}", "{{ keychain }}", "{{ 1 + 1 }}", "Bearer {{ x }}", "$scope"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.dictionaries(KEYS | TEXTS, inner, max_size=3)
    marks = st.fixed_dictionaries({"$template": TEXTS, "$scope": names})
    return st.lists(inner, max_size=3) | names | marks


DATA = st.recursive(SCALARS | TEXTS, _grown, max_leaves=12)

PROGRAM = program(
    """
    - step: a
      tool:
        - { name: get, kind: http, url: "http://x" }
        - name: use
          kind: http
          url: "http://y"
          input: { arg: "{{ workload.x }}", token: "{{ keychain.api.token }}" }
          headers: { t: "{{ token }}" }
          body: { w: "{{ workload.x }}", list: ["{{ get.body }}"], a: "{{ arg }}", m: "{{ [token, workload.x] }}" }
          params: "{{ workload.x }}"
    """
)


@given(DATA, st.booleans())
@settings(max_examples=300, deadline=None)
def test_data_comes_out_of_a_call_as_it_went_in(data: Any, is_large: bool) -> None:
    data = [data, "z" * 100_000] if is_large else data
    rehearsal = Rehearsal(lambda job: body(data))
    rehearsal.submit(PROGRAM, {"x": data})
    rehearsal.run()
    (job,) = [job for job in rehearsal.executions["e1"].jobs if job.address.task == "use"]
    found = tool_inputs(job, rehearsal.values)

    assert len(encode_job(job)) <= MAX_MESSAGE_BYTES
    assert found.config["body"] == {"w": data, "list": [data], "a": data, "m": [SECRET, data]}
    assert found.config["params"] == data
    assert found.config["headers"] == {"t": SECRET}
    assert found.input == {"arg": data, "token": SECRET}
