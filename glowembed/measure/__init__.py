"""Instructions and cycles of a bundle, layer by layer, without hardware. `measure` is the one entry."""

from glowembed.measure.measurement import Figures, HotSpot, Measurement, measure, noise
from glowembed.measure.show import shown

__all__ = ["Figures", "HotSpot", "Measurement", "measure", "noise", "shown"]
