"""Proofs about constants, and orders of constants, that kernels of several cores share."""
