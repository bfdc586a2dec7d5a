"""Playbooks that the tests of the command line write to disk."""

GOOD = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: fetch_users }
workload: { url: "http://127.0.0.1:9000" }
workflow:
  - step: fetch
    tool:
      kind: http
      url: "{{ workload.url }}"
    next: report
  - step: report
    tool: { kind: noop }
"""

BAD = GOOD.replace("kind: http", "kind: htp").replace("next: report", "next: repot")

LOST_STEP = f"""{GOOD}\
  - step: lost
    tool: {{ kind: noop }}
"""

WAITING = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: patient }
workflow:
  - step: fetch
    tool:
      kind: http
      url: "http://127.0.0.1:9000"
      eval:
        - expr: "{{ outcome.status == 'error' }}"
          do: retry
          attempts: 4
          backoff: fixed
          delay: 10
        - else: { do: continue }
"""
