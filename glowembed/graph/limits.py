"""Limits on the size of models, and on the size up to which certain plans are computed. docs/memory.md states them.

All limits count parts of the model and never time, so that a model has the same plan on every machine.
"""

from __future__ import annotations

ELEMENTS = 2**27
"""The most elements of a tensor; models with more are refused."""

FOLDED = 2**26
"""The most elements of a constant that is computed while a model is read; models with more are refused."""

FOLDED_IN_ALL = 2**27
"""The most elements of all constants that are computed while a model is read; models with more are refused."""

NODES = 10_000
"""The most nodes of a model; models with more are refused."""

PARAMETERS = 2**28
"""The most numbers in all constants of a model; models with more are refused."""

ARENA = 2**27
"""The most bytes of a plan, including buffers of the caller; larger plans are refused."""

ROWS_OF_A_NODE = 2048
"""The most rows of a node's output that the planner treats one by one; it treats the output of a node with more rows as
a whole.
"""

STREAMED_ROWS, STREAMED_NODES = 16_000, 400
"""The most rows of a network, and the most nodes, for which layers are computed row by row."""

TOLD_APART = 100_000
"""The most rows of a network for which the planner treats rows one by one."""

ACCESSES = 8_000_000
"""The most rows read and written by all rows of a network for which the planner treats rows one by one."""

SOFTMAX = 4096
"""The most elements of a softmax for which the compiler drops elements that are always zero."""
