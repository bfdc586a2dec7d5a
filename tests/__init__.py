"""The tests; a folder says their kind."""
