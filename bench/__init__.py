"""Measurements that print figures; none of them is a test."""
