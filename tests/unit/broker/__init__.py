"""The broker package, one module at a time."""
