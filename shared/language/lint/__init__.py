"""Lint: what is allowed in a playbook and probably not meant, and how long its tasks can wait."""
