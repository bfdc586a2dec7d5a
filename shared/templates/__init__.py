"""Sandboxed, native and deterministic Jinja2 expressions for playbooks."""
