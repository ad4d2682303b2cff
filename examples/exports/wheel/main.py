"""Proves the bits of the network, and classifies the image, with the wheel of the export. Only NumPy is needed, not glowembed."""

import re
from pathlib import Path

import digits
import numpy as np

text = (Path(__file__).parent / "image.h").read_text()
pixels = [int(word) for word in re.findall(r"\d+", text.partition("= {")[2].partition("}")[0])]
image = np.array(pixels, np.float32).reshape(digits.INPUTS[0].shape) / 16

network = digits.Network()
scores = network(image)["logits"]  # real numbers in, real numbers out
print(f"digits: the bits are {'' if network.selftest() else 'NOT '}those of the reference")
print(f"digits: this is a {int(scores.argmax())}")
