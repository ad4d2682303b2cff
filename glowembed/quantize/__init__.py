"""Chooses the type of every value: settings, scales and zero points, biases; then removes superfluous nodes."""
