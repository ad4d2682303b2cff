"""Proves the bits of the network, and classifies the image, on a MicroPython that was built with the module of the export."""

import digits

# DIGITS_INPUT_IMAGE_SCALE and DIGITS_INPUT_IMAGE_ZERO_POINT of digits.h
SCALE, ZERO_POINT = 4.166667e-03, -128

with open("image.h") as file:  # noqa: PTH123  MicroPython has no pathlib
    numbers = file.read().split("= {")[1].split("}")[0].split(",")
stored = [round(int(word) / 16 / SCALE) + ZERO_POINT for word in numbers if word.strip()]
(scores,) = digits.run(bytes(number & 255 for number in stored))
logits = [score - 256 if score > 127 else score for score in scores]

print("digits: the bits are " + ("" if digits.selftest() else "NOT ") + "those of the reference")
print("digits: this is a", logits.index(max(logits)))
