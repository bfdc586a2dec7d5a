"""Every YAML example of the five documents that the language grew from, restated as a whole playbook.

Left out, because they are no playbook YAML: the listings of events (`- event: iterator_started`, `action_failed`,
`action_completed`, `retry_sequence_completed`) of the distributed loop and retry document; the retry blocks quoted
inside those listings are here. In the diagram document the example says `retry_when: "..."`; it is given a condition.
"""

from tests.support.language import of_keys, of_steps, of_tasks

ARCHITECTURE = "Event-Driven Retry Architecture"
CANONICAL = "Retry Handling (Canonical)"
MECHANISM = "Retry Mechanism"
DISTRIBUTED = "Distributed Loop and Retry Architecture"
DIAGRAM = "Event-Driven Retry Architecture Diagram"

EXAMPLES: dict[tuple[str, str], str] = {
    (ARCHITECTURE, "full retry configuration"): of_steps(
        """
        - step: fetch_data
          type: http
          url: https://api.example.com/data
          retry:
            max_attempts: 5
            initial_delay: 1.0
            backoff_multiplier: 2.0
            max_delay: 60.0
            jitter: true
            retry_when: "{{ status_code >= 500 or error != None }}"
            stop_when: "{{ status_code == 200 and success == True }}"
          next:
            - step: process_data
        - step: process_data
        """
    ),
    (ARCHITECTURE, "boolean"): of_keys("retry: true"),
    (ARCHITECTURE, "integer"): of_keys("retry: 3"),
    (ARCHITECTURE, "minimal"): of_keys(
        """
        retry:
          max_attempts: 5
          retry_when: "{{ status_code >= 500 }}"
        """
    ),
    **{
        (CANONICAL, f"schema of eval, {backoff}"): of_tasks(
            f"""
            - only:
                kind: http
                url: http://api
                eval:
                  - expr: "{{{{ outcome.error.retryable }}}}"
                    do: retry
                    attempts: 5
                    backoff: {backoff}
                    delay: 1.0                # seconds or expression
                  - else:
                      do: continue
            """
        )
        for backoff in ("exponential", "linear", "fixed")
    },
    (CANONICAL, "http on 5xx and 429"): of_tasks(
        """
        - fetch_page:
            kind: http
            spec:
              timeout: { connect: 5, read: 15 }
            method: GET
            url: "{{ workload.api_url }}/api/v1/assessments"
            params: { page: "{{ iter.page }}", pageSize: "{{ iter.endpoint.page_size }}" }
            eval:
              - expr: "{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503, 504] }}"
                do: retry
                attempts: 10
                backoff: exponential
                delay: "{{ outcome.http.headers['retry-after'] | default(2) }}"
              - expr: "{{ outcome.status == 'error' }}"
                do: fail
              - else:
                  do: continue
        """
    ),
    (CANONICAL, "postgres on deadlock"): of_tasks(
        """
        - store_page:
            kind: postgres
            auth: pg_k8s
            command: "INSERT INTO ..."
            eval:
              - expr: "{{ outcome.status == 'error' and outcome.pg.code in ['40001','40P01'] }}"
                do: retry
                attempts: 5
                backoff: exponential
                delay: 2.0
              - expr: "{{ outcome.status == 'error' }}"
                do: fail
              - else:
                  do: continue
        """
    ),
    (CANONICAL, "python on transient exceptions"): of_tasks(
        """
        - transform:
            kind: python
            args: { data: "{{ _prev }}" }
            code: " ... "
            eval:
              - expr: "{{ outcome.status == 'error' and 'timeout' in (outcome.error.message|lower) }}"
                do: retry
                attempts: 3
                backoff: fixed
                delay: 1.0
              - expr: "{{ outcome.status == 'error' }}"
                do: fail
              - else:
                  do: continue
        """
    ),
    (CANONICAL, "jitter as an expression"): of_tasks(
        """
        - poll:
            kind: http
            url: http://api
            eval:
              - expr: "{{ outcome.status == 'error' }}"
                do: retry
                delay: "{{ 2.0 * (0.5 + rand()) }}"
        """
    ),
    (CANONICAL, "jitter as an option of the tool"): of_tasks(
        """
        - poll:
            kind: http
            url: http://api
            spec: { jitter: true }
            eval:
              - expr: "{{ outcome.status == 'error' }}"
                do: retry
        """
    ),
    (CANONICAL, "migration, before"): of_keys(
        """
        retry:
          max_attempts: 5
          retry_when: "{{ status_code >= 500 }}"
        """
    ),
    (CANONICAL, "migration, after"): of_keys(
        """
        eval:
          - expr: "{{ outcome.status == 'error' and outcome.http.status >= 500 }}"
            do: retry
            attempts: 5
            backoff: exponential
            delay: 1.0
          - expr: "{{ outcome.status == 'error' }}"
            do: fail
          - else:
              do: continue
        """
    ),
    (MECHANISM, "boolean"): of_keys("retry: true  # Use default retry policy (3 attempts, 1s initial delay)"),
    (MECHANISM, "integer"): of_keys("retry: 5  # Retry up to 5 times with default settings"),
    (MECHANISM, "full configuration"): of_keys(
        """
        retry:
          max_attempts: 3           # Maximum number of execution attempts (default: 3)
          initial_delay: 1.0        # Initial delay in seconds (default: 1.0)
          max_delay: 60.0           # Maximum delay between retries (default: 60.0)
          backoff_multiplier: 2.0   # Exponential backoff multiplier (default: 2.0)
          jitter: true              # Add random jitter to delays (default: true)
          retry_when: "{{ expr }}"  # Jinja2 expression to determine if retry needed
          stop_when: "{{ expr }}"   # Jinja2 expression to stop retrying (overrides retry_when)
        """
    ),
    **{
        (MECHANISM, f"condition {condition}"): of_keys(f'retry: {{ retry_when: "{{{{ {condition} }}}}" }}')
        for condition in (
            "status_code >= 500 and status_code < 600",
            "status_code in [500, 502, 503, 504]",
            "status_code != 200",
            "error != None",
            "'timeout' in (error|lower)",
            "'deadlock' in (error|lower)",
            "success == False",
            "attempt <= 2 and 'rate limit' in (error|lower)",
            "(attempt == 1 and status_code >= 500) or (attempt > 1 and status_code == 503)",
            "status_code in [429, 500, 502, 503]",
            "True",
        )
    },
    (MECHANISM, "stop on success"): of_keys('retry: { stop_when: "{{ success == True }}" }'),
    (MECHANISM, "http on server errors"): of_steps(
        """
        - step: fetch_data
          tool: http
          method: GET
          url: "{{ api_url }}"
          retry:
            max_attempts: 5
            initial_delay: 2.0
            backoff_multiplier: 2.0
            retry_when: "{{ status_code >= 500 }}"
            stop_when: "{{ status_code == 200 }}"
        """
    ),
    (MECHANISM, "python with exception handling"): of_steps(
        """
        - step: process_data
          tool: python
          code: |
            def main(input_data):
                # Processing logic that might fail
                return result
          retry:
            max_attempts: 3
            initial_delay: 0.5
            retry_when: "{{ error != None }}"
        """
    ),
    (MECHANISM, "database query"): of_steps(
        """
        - step: query_database
          tool: postgres
          auth:
            type: postgres
            credential: prod_db
          query: "{{ sql_query }}"
          retry:
            max_attempts: 5
            initial_delay: 1.0
            backoff_multiplier: 1.5
            retry_when: "{{ error != None or success == False }}"
        """
    ),
    (MECHANISM, "duckdb"): of_steps(
        """
        - step: analyze_data
          tool: duckdb
          query: "{{ analysis_query }}"
          retry:
            max_attempts: 3
            initial_delay: 0.5
            retry_when: "{{ 'out of memory' in (error|lower) }}"
        """
    ),
    (MECHANISM, "reasonable attempts"): of_keys("retry:\n  max_attempts: 3  # Good starting point"),
    (MECHANISM, "appropriate delays"): of_keys(
        """
        retry:
          initial_delay: 1.0        # Start with 1 second
          max_delay: 30.0           # Cap at 30 seconds
          backoff_multiplier: 2.0   # Double each time
        """
    ),
    (MECHANISM, "jitter"): of_keys("retry:\n  jitter: true  # Add randomization"),
    (MECHANISM, "stop for early exit"): of_keys(
        """
        retry:
          retry_when: "{{ status_code != 200 }}"
          stop_when: "{{ status_code == 200 }}"  # Exit early on success
        """
    ),
    (DISTRIBUTED, "sink of a loop"): of_steps(
        """
        - step: process_users
          tool: http
          url: "{{ api_url }}/process"
          loop:
            collection: "{{ users }}"
            element: user
            mode: async
            concurrency: 10
          sink:
            tool: postgres
            table: processed_users
            connection: main_db
        """
    ),
    (DISTRIBUTED, "on_error of the event listing"): of_keys(
        """
        retry:
          on_error:
            max_attempts: 3
            backoff: exponential
        """
    ),
    (DISTRIBUTED, "on_success of the event listing"): of_keys(
        """
        retry:
          on_success:
            while: "{{ response.paging.hasMore }}"
            next_call:
              params:
                page: "{{ response.paging.page + 1 }}"
        """
    ),
    (DISTRIBUTED, "sink of a retry"): of_steps(
        """
        - step: fetch_paginated_data
          tool: http
          url: "{{ api_url }}/data"
          params:
            page: 1
            pageSize: 100
          retry:
            on_success:
              while: "{{ response.paging.hasMore }}"
              max_attempts: 100
              next_call:
                params:
                  page: "{{ response.paging.page + 1 }}"
              collect: append
              merge_path: data
          sink:
            tool: postgres
            table: raw_data
            connection: main_db
            mode: append
        """
    ),
    (DISTRIBUTED, "loop without retry"): of_steps(
        """
        - step: process_items
          tool: python
          code: |
            def main(item):
              return item * 2
          loop:
            collection: "{{ items }}"
            element: item
        """
    ),
    (DISTRIBUTED, "retry without loop"): of_steps(
        """
        - step: fetch_data
          tool: http
          url: "{{ api_url }}/data"
          retry:
            on_success:
              while: "{{ response.paging.hasMore }}"
              next_call:
                params:
                  page: "{{ response.paging.page + 1 }}"
        """
    ),
    (DISTRIBUTED, "loop with retry"): of_steps(
        """
        - step: fetch_multiple_apis
          tool: http
          url: "{{ endpoint }}/data"
          params:
            page: 1
          loop:
            collection: "{{ endpoints }}"
            element: endpoint
          retry:
            on_success:
              while: "{{ response.paging.hasMore }}"
              next_call:
                params:
                  page: "{{ response.paging.page + 1 }}"
        """
    ),
    (DISTRIBUTED, "sink per iteration"): of_steps(
        """
        - step: process_batch
          tool: python
          code: "def main(item): return transform(item)"
          loop:
            collection: "{{ items }}"
            element: item
          sink:  # Executes once per iteration
            tool: postgres
            table: results
        """
    ),
    (DISTRIBUTED, "sink per attempt"): of_steps(
        """
        - step: fetch_pages
          tool: http
          url: "{{ api }}/data"
          retry:
            on_success:
              while: "{{ response.hasMore }}"
          sink:  # Executes once per page
            tool: postgres
            table: raw_pages
            mode: append
        """
    ),
    (DISTRIBUTED, "sink per iteration and attempt"): of_steps(
        """
        - step: fetch_all
          tool: http
          url: "{{ endpoint }}/data"
          loop:
            collection: "{{ endpoints }}"
            element: endpoint
          retry:
            on_success:
              while: "{{ response.hasMore }}"
          sink:  # Executes once per (endpoint, page) combination
            tool: postgres
            table: api_data
        """
    ),
    (DIAGRAM, "playbook"): of_steps(
        """
        - step: my_step
          type: http
          url: http://api
          retry:              # Retry config here
            max_attempts: 3
            retry_when: "{{ status_code == 503 }}"
        """
    ),
    (DIAGRAM, "boolean, normalised"): of_keys("retry: {}"),
    (DIAGRAM, "integer, normalised"): of_keys("retry: { max_attempts: 5 }"),
}
