"""Formats results for people: tables, pages, drawings."""
