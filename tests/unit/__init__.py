"""One package at a time, in memory."""
