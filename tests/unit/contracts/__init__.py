"""The contracts between processes."""
