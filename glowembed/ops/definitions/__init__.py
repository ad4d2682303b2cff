"""Operators as loop nests, a module for each family. Every module is loaded, so there is no list to edit."""
