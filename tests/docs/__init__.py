"""What the documentation says, held by tests."""
