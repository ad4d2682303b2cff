"""Bounded readers for files from users, one for each format, and one writer for everything that is written."""
