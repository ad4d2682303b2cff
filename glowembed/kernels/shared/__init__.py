"""Proofs about constants, and orders of them, that kernels of several cores share."""
