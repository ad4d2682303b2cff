"""Reads a TensorFlow Lite file as an equivalent ONNX model, which the importer then reads like any other."""

from glowembed.read.tflite.translate import DOMAIN as DOMAIN
from glowembed.read.tflite.translate import OPSET as OPSET
from glowembed.read.tflite.translate import is_tflite as is_tflite
from glowembed.read.tflite.translate import refusal as refusal
from glowembed.read.tflite.translate import to_onnx as to_onnx
