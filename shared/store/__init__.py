"""What is kept: the port that services use, its tables, and its adapters for Postgres and for memory."""
