"""One suite for every adapter of a port."""
