"""Reads samples and records the range of every value."""
