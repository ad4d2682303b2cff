"""Definitions of operators as loop nests, one module for each family. All modules in this folder are loaded, so there
is no list to edit.
"""
