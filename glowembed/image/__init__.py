"""Builds firmware from a bundle and a board, and reads its sizes and its stack depth."""
