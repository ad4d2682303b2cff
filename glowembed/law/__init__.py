"""The arithmetic that Python and C share, bit for bit."""
