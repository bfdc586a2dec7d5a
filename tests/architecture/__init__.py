"""The shape of the code base, held by tests."""
