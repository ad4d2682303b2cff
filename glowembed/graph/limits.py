"""The sizes of models that are taken, and up to which of them what is computed. docs/memory.md states them.

All are counts of the model itself, never of time: the same model has the same plan on every machine.
"""

from __future__ import annotations

ELEMENTS = 2**27
"""Elements of a tensor of a model; more are refused."""

FOLDED = 2**26
"""Elements of a constant that is computed while a model is read; more are refused."""

NODES = 5_000
"""Nodes of a model; more are refused."""

PARAMETERS = 2**28
"""Numbers in all constants of a model; more are refused."""

ARENA = 2**27
"""Bytes of a plan, with buffers of the caller; more are refused."""

ROWS_OF_A_NODE = 2048
"""Rows of a node's output up to which the planner knows them one by one; a node with more has one, its whole tensor."""

STREAMED_ROWS, STREAMED_NODES = 16_000, 400
"""Rows of a network, and nodes, up to which layers are computed row by row."""

TOLD_APART = 100_000
"""Rows of a network up to which those of any node are known one by one."""

ACCESSES = 8_000_000
"""Rows that are read and written by all rows of a network, up to which they are known one by one."""

SOFTMAX = 4096
"""Elements of a softmax up to which those that are never but zero are dropped."""
