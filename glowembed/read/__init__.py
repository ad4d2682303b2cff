"""Reads an ONNX file and builds the graph."""
