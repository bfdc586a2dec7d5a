"""Ingest, endpoint by endpoint, on a store and a broker in memory."""
