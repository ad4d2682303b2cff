"""One file per family: ONNX import, shapes, references, lowering."""
