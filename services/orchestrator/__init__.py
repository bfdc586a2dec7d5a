"""The orchestrator: hears what happened, decides what happens next, hands out jobs."""
