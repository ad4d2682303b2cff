"""Translators of TensorFlow Lite operators: each module has a mapping OPERATORS from names to functions that translate
a Call.
"""
