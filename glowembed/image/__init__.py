"""Builds firmware from a bundle and a board, and reads sizes and the stack from it."""
