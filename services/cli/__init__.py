"""The `redrive` command."""
