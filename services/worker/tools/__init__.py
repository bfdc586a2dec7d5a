"""What a task can do, one module per kind."""
