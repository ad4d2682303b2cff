"""Answers whether a bundle is right, accurate and small enough, and what would improve it."""
