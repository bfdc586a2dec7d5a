"""The engine: pure functions that say what happens next in an execution, and why."""
