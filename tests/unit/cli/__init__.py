"""The commands, run in this process on real files."""
