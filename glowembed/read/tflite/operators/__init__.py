"""The operators of TensorFlow Lite: every module here has a mapping OPERATORS from names to functions that translate a Call."""
