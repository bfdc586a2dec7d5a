"""The installed programs, run as people run them."""
