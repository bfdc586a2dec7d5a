"""The orchestrator on memory: what it finds again, and what it says of it."""
