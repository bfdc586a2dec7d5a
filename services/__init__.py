"""The programs that run: each service, and the command line that composes them."""
