"""One module for each family of operators. It has their ONNX import, shapes, references and lowering."""
