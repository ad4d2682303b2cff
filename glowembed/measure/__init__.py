"""Counts instructions and estimates cycles, layer by layer, without hardware. The entry point is `measure`."""

from glowembed.measure.measurement import Figures, HotSpot, Measurement, Ruler, measure, noise
from glowembed.measure.show import shown

__all__ = ["Figures", "HotSpot", "Measurement", "Ruler", "measure", "noise", "shown"]
