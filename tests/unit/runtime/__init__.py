"""Tests of what services stand on."""
