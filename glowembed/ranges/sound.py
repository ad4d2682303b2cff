"""Turns samples of sound into the features that the model after a front end takes. In: a Dataset, the model as a Graph.
Out: a Dataset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Graph
from glowembed.options.frontend import Frontend
from glowembed.ranges.datasets import Dataset
from glowembed.read.frontend import input_of, with_frontend
from glowembed.reference import run_float


def heard(dataset: Dataset, frontend: Frontend | None, model: Graph) -> Dataset:
    """The samples with features in place of sound, computed by the float reference of the front end."""
    if frontend is None:
        return dataset
    name = input_of(model, frontend)
    value = replace(model.values[name], layout=None)
    alone = with_frontend(Graph("features", (), {name: value}, (name,), (name,)), replace(frontend, input=""))
    (source,) = alone.inputs
    shape = alone.values[source].shape
    made = [run_float(alone, {source: one.reshape(shape)})[name] for one in dataset.inputs[source]]
    integers = {one: known for one, known in dataset.integers.items() if one != source}
    arrays = {one: array for one, array in dataset.inputs.items() if one != source}
    shapes = {one: known for one, known in dataset.shapes.items() if one != source}
    return replace(
        dataset, inputs={**arrays, name: np.stack(made)}, shapes={**shapes, name: value.shape}, integers=integers
    )
