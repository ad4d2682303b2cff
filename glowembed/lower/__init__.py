"""Turns ops into kernel-level ops and chooses a kernel for each."""
