"""Playbooks that are right and playbooks that are wrong, for tests that hold for all of them."""

from textwrap import dedent

from tests.support.language import of_keys, of_steps, of_tasks
from tests.support.seed_examples import EXAMPLES

LANGUAGE_PAGE_STEP = dedent(
    """\
    apiVersion: redrive.io/v1
    kind: Playbook
    metadata: { name: fetch_users, path: examples/fetch_users, description: All users., labels: {team: data} }
    workload: { api_url: "http://127.0.0.1:9000", enabled: true, endpoints: [users, teams] }
    keychain: [ { name: pg_main, kind: postgres_credential } ]
    workflow:
      - step: fetch_all
        desc: what it is for
        when: "{{ workload.enabled }}"
        loop: { in: "{{ workload.endpoints }}", iterator: endpoint, mode: parallel, max_in_flight: 10 }
        tool:
          - name: fetch
            kind: http
            url: "{{ workload.api_url }}/{{ endpoint }}"
          - name: store
            kind: postgres
            auth: pg_main
            command: "INSERT INTO pages VALUES (1)"
        timeout: 10m
        set: { ctx.last_page: "{{ fetch.paging.page }}" }
        next:
          mode: exclusive
          arcs:
            - { step: report, when: "{{ event.name == 'step.completed' }}", args: { n: "{{ fetch_all | length }}" } }
            - { step: alert,  when: "{{ event.name == 'step.failed' }}" }
      - step: report
        tool: { kind: noop, input: { n: "{{ args.n }}" } }
      - step: alert
    """
)
LANGUAGE_PAGE_RULES = dedent(
    """\
    workload: { api_url: "http://127.0.0.1:9000" }
    workflow:
      - step: pages
        tool:
          - name: fetch
            kind: http
            url: "{{ api_url }}"
            params: { page: "{{ iter.page | default(1) }}" }
            eval:
              - expr: "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}"
                do: retry
                attempts: 10                  # attempts in all, the first included
                backoff: exponential          # none | fixed | linear | exponential
                delay: "{{ outcome.http.headers['retry-after'] | default(2) }}"
                multiplier: 2.0               # exponential only
                max_delay: 60
                jitter: true
                budget: 15m
                on_exhausted: fail
              - expr: "{{ outcome.status == 'success' and outcome.result.paging.hasMore }}"
                do: jump
                to: fetch
                delay: 0.5
                max_jumps: 1000
                set_iter: { page: "{{ (iter.page | int) + 1 }}" }
              - expr: "{{ outcome.status == 'error' }}"
                do: fail
              - else: { do: continue, set_ctx: { seen: "{{ outcome.result.total }}" } }
    """
)
EVERYTHING = dedent(
    """\
    apiVersion: noetl.io/v2
    kind: Playbook
    metadata: {name: everything, path: examples/everything, labels: {tier: 1}, version: 2}
    workload: {n: 3, items: [1, 2]}
    keychain: [{name: pg, kind: postgres_credential}]
    executor:
      profile: local
      version: noetl-runtime/1
      spec:
        entry_step: start
        strict: false
        on_failure: finish
        reducers: {seen: sum}
        pool: near
        limits: {max_steps: 1000, timeout: 2h}
    workbook:
      - name: shout
        tool: {kind: python, code: "result = input_data['text'].upper()", args: {text: hi}}
      - {name: rest, kind: wait, for: 1s}
    workflow:
      - step: start
        when: true
        next: [left, right]
      - step: left
        tool: {kind: shell, cmds: [ls, pwd], env: {A: "{{ env.HOME }}"}, timeout: 1m}
        next: {spec: {mode: inclusive}, arcs: [{step: meet, set: {from: left}}]}
      - step: right
        spec: {policy: {admit: {rules: [{when: "{{ workload.n > 1 }}", then: {allow: true}}, {else: {allow: false}}]}}}
        tool:
          - call: {kind: workbook, name: shout, args: {text: ho}}
          - {name: rest, kind: workbook}
          - child:
              kind: playbook
              path: examples/child
              input: {n: "{{ workload.n }}"}
              spec:
                policy:
                  on_unmatched: fail
                  rules:
                    - {when: "{{ output.error.retryable }}", then: {do: retry, attempts: "{{ workload.n }}"}}
                    - {when: "{{ output.status == 'ok' }}", then: {do: continue, set: {ctx.seen: 1, x: 2}}}
                    - {else: {then: {do: jump, to: call, delay: 500ms}}}
        next: [{step: meet, when: "{{ event.name == 'step.done' }}"}, {else: end}]
      - step: meet
        join: {of: [left, right], mode: any}
        loop:
          collection: "{{ workload.items }}"
          element: item
          mode: async
          concurrency: 2
          chunk_size: 1
          where: "{{ item }}"
          tolerate: 5%
          collect: errors
        tool: http
        method: POST
        url: "http://api/{{ item }}"
        body: {a: ["{{ item }}"]}
        expect: [2xx, 404]
        timeout: {connect: 5, read: 10, total: 1m}
        auth: {type: bearer, credential: pg}
        output: {output_select: [id]}
        spec: {jitter: equal, retries: 2, pool: far}
        retry:
          - {retry_when: "{{ status_code == 429 }}", stop_when: "{{ attempt > 5 }}", initial_delay: "{{ attempt }}"}
          - on_error: {max_attempts: 5, backoff: linear, condition: "{{ error != None }}", on_exhausted: {jump: meet}}
            on_success:
              {while: "{{ response.more }}", next_call: {url: "{{ response.next }}"}, merge_path: data, into: all}
        sink: {tool: postgres, auth: pg, table: t, mode: upsert, key: id, data: "{{ result.data }}"}
        set: {ctx.done: true}
        next: [claim]
      - step: claim
        loop:
          cursor: {kind: postgres, auth: pg, claim: "UPDATE t SET x = 1 RETURNING *"}
          spec: {mode: cursor, max_in_flight: 4, frame: {max_rows: 10, process: frame}}
        join: none
        tool:
          - {kind: duckdb, query: "select 1", attach: [{path: a.db, as: a}]}
          - {kind: artifact, action: get, input: {result_ref: "{{ meet._ref }}"}}
          - {kind: rabbitmq, exchange: x, routing_key: k, body: "{{ _prev }}"}
          - {kind: noop, sink: {tool: file, path: out.csv, format: csv}}
        next: end
      - step: end
        tool: noop
    result: {seen: "{{ ctx.seen }}"}
    """
)

VALID: dict[str, str] = {
    **{": ".join(key): text for key, text in EXAMPLES.items()},
    "the step of the language page": LANGUAGE_PAGE_STEP,
    "the rules of the language page": LANGUAGE_PAGE_RULES,
    "everything": EVERYTHING,
    "one step": "workflow: [{step: a}]",
    "an empty pipeline": of_steps("- {step: a, tool: [], next: []}"),
    "no retry": of_keys("retry: false"),
    "nested else": of_keys("eval: [{else: {then: {do: break}}}]"),
    "labelled task": of_steps("- {step: a, tool: {get: {kind: noop}}}"),
    "kind called tool": of_steps("- {step: a, tool: {tool: noop}}"),
    "flat step under spec": of_steps("- {step: a, kind: http, spec: {endpoint: u}}"),
    "wait for a signal": of_tasks("- {kind: wait, signal: go, timeout: 1h}"),
    "statuses": of_keys("expect: '4xx'"),
    "loop over a number": of_steps("- {step: a, loop: {in: 5}, tool: noop}"),
    "loop over a mapping": of_steps("- {step: a, loop: {in: {a: 1}, on_failure: continue}, tool: noop}"),
    "join of a number": of_steps("- {step: a, join: {mode: 2}}"),
    "conditions in words": of_steps("- {step: a, when: 'Yes', next: [{step: a, when: off}]}"),
    "durations": of_keys("timeout: PT1H30M\neval: [{expr: true, do: retry, delay: 1h 30m, max_delay: '.5 d'}]"),
    "templates everywhere": of_keys(
        "timeout: '{{ a }}'\nexpect: '{{ b }}'\nfollow_redirects: '{{ c }}'\nmax_body: '{{ d }}'\nheaders: '{{ e }}'\n"
        "params: '{{ f }}'\nauth: '{{ g }}'\nloop: {in: '{{ h }}', max_in_flight: '{{ i }}', tolerate: '{{ j }}'}"
    ),
}

# What breaks the structure: the parser and the JSON Schema both refuse it.
INVALID: dict[str, str] = {
    "nothing": "{}",
    "a list": "[]",
    "no steps": "workflow: []",
    "steps as a mapping": "workflow: {a: {}}",
    "a step without a name": of_steps("- {tool: noop}"),
    "a step that is a text": of_steps("- a"),
    "unknown key of the playbook": "workflow: [{step: a}]\nworkflows: []",
    "unknown key of a step": of_steps("- {step: a, nxt: b}"),
    "unknown key of a flat step": of_keys("colour: red"),
    "unknown key of a task": of_tasks("- {kind: noop, colour: red}"),
    "unknown key of a labelled task": of_tasks("- get: {kind: noop, colour: red}"),
    "unknown key under spec": of_tasks("- {kind: noop, spec: {colour: red}}"),
    "unknown key of a rule": of_keys("eval: [{expr: true, do: fail, colour: red}]"),
    "unknown key of a retry": of_keys("retry: {max_attempt: 5}"),
    "unknown key of on_error": of_keys("retry: {on_error: {max_attempt: 5}}"),
    "unknown key of a loop": of_steps("- {step: a, loop: {in: 3, colour: red}}"),
    "unknown key of a sink": of_keys("sink: {tool: file, path: p, colour: red}"),
    "unknown key of an arc": of_steps("- {step: a, next: [{step: a, colour: red}]}"),
    "unknown key of metadata": "metadata: {colour: red}\nworkflow: [{step: a}]",
    "unknown key of the executor": "executor: {spec: {colour: red}}\nworkflow: [{step: a}]",
    "unknown kind": of_tasks("- {kind: htp}"),
    "unknown kind of a flat step": of_steps("- {step: a, tool: htp}"),
    "unknown kind of a labelled task": of_tasks("- get: {kind: htp}"),
    "unknown kind of a sink": of_keys("sink: {tool: mongo, table: t}"),
    "unknown kind in the workbook": of_steps("- step: a", "workbook: [{name: b, tool: {kind: htp}}]\n"),
    "kind that is no text": of_steps("- {step: a, kind: 5}"),
    "tool that is nothing": of_steps("- {step: a, tool: }"),
    "a task without a kind": of_tasks("- {name: a}"),
    "a task that is a text": of_tasks("- http"),
    "unknown directive": of_keys("eval: [{expr: true, do: rety}]"),
    "unknown directive in then": of_keys("eval: [{when: true, then: {do: rety}}]"),
    "unknown directive in else": of_keys("eval: [{else: {do: rety}}]"),
    "unknown directive at the end": of_keys("eval: [{expr: true, do: retry, on_exhausted: rety}]"),
    "rule without a directive": of_keys("eval: [{expr: true}]"),
    "rule without a condition": of_keys("eval: [{do: fail}]"),
    "rule beside else": of_keys("eval: [{else: {do: fail}, expr: true}]"),
    "rules as a mapping": of_keys("eval: {expr: true, do: fail}"),
    "unknown backoff": of_keys("eval: [{expr: true, do: retry, backoff: expo}]"),
    "unknown jitter": of_keys("eval: [{expr: true, do: retry, jitter: half}]"),
    "no attempts": of_keys("eval: [{expr: true, do: retry, attempts: 0}]"),
    "attempts in words": of_keys("eval: [{expr: true, do: retry, attempts: many}]"),
    "half an attempt": of_keys("eval: [{expr: true, do: retry, attempts: 1.5}]"),
    "negative delay": of_keys("eval: [{expr: true, do: retry, delay: -1}]"),
    "delay in words": of_keys("eval: [{expr: true, do: retry, delay: soon}]"),
    "delay with a point": of_keys("eval: [{expr: true, do: retry, delay: '5.'}]"),
    "delay of two numbers": of_keys("eval: [{expr: true, do: retry, delay: '5 5m'}]"),
    "delay of an empty period": of_keys("eval: [{expr: true, do: retry, delay: P}]"),
    "condition without braces": of_keys("eval: [{expr: status_code > 5, do: fail}]"),
    "retry zero": of_keys("retry: 0"),
    "retry in words": of_keys("retry: 'yes'"),
    "retry of nothing": of_keys("retry: null"),
    "retry of an empty list": of_keys("retry: []"),
    "on_success without while": of_keys("retry: {on_success: {max_attempts: 5}}"),
    "unknown collect": of_keys("retry: {on_success: {while: true, collect: concat}}"),
    "http without url": of_tasks("- {kind: http}"),
    "flat http without url": of_steps("- {step: a, tool: http}"),
    "shell with two commands": of_tasks("- {kind: shell, cmd: a, argv: [b]}"),
    "sink without table": of_keys("sink: {tool: postgres}"),
    "sink that upserts without key": of_keys("sink: {tool: postgres, table: t, mode: upsert}"),
    "unknown mode of a sink": of_keys("sink: {tool: postgres, table: t, mode: insert}"),
    "loop without source": of_steps("- {step: a, loop: {iterator: x}}"),
    "loop over a text": of_steps("- {step: a, loop: {in: users}}"),
    "unknown mode of a loop": of_steps("- {step: a, loop: {in: 3, mode: sideways}}"),
    "tolerance in words": of_steps("- {step: a, loop: {in: 3, tolerate: some}}"),
    "name with a blank": of_steps("- {step: two words}"),
    "unknown mode of next": of_steps("- {step: a, next: {mode: all, arcs: [a]}}"),
    "next without arcs": of_steps("- {step: a, next: {mode: inclusive}}"),
    "next of nothing": of_steps("- {step: a, next: }"),
    "guarded else": of_steps("- {step: a, next: [{else: {step: a, when: true}}]}"),
    "unknown join": of_steps("- {step: a, join: some}"),
    "join of nothing": of_steps("- {step: a, join: {of: []}}"),
    "unwritable target": of_steps("- {step: a, set: {workload.x: 1}}"),
    "target of a bare scope": of_steps("- {step: a, set: {ctx: 1}}"),
    "scope named twice": of_keys("eval: [{else: {do: fail, set_ctx: {ctx.a: 1}}}]"),
    "unknown version": "apiVersion: redrive.io/v9\nworkflow: [{step: a}]",
    "credential without a name": "keychain: [{kind: x}]\nworkflow: [{step: a}]",
    "workbook without a name": "workbook: [{kind: noop}]\nworkflow: [{step: a}]",
    "strict in words": "executor: {spec: {strict: 'yes'}}\nworkflow: [{step: a}]",
    "auth without a credential": of_keys("auth: {type: basic}"),
    "status out of range": of_keys("expect: 99"),
    "headers as a text": of_keys("headers: accept"),
}
