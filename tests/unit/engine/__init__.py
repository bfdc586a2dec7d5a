"""Behaviour of the decider."""
