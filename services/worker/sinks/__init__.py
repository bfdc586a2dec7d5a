"""Sinks: where the result of a task is stored, in the same job, before the task counts as done."""
