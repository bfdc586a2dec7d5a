"""The worker: one message, one attempt, one outcome."""
