"""Everything that crosses a process boundary: identities, events, outcomes, jobs."""
