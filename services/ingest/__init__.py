"""Ingest: the REST interface, the catalogue of playbooks, and the way by which facts get into the log."""
