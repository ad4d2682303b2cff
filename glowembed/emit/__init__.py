"""Writes the files of a bundle: C, constants, manifest and reference."""
