"""Files with one operator give the bits of TensorFlow Lite Micro, whose outputs tests/helpers/record_tflm.py recorded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tflite_cases import SAMPLES, cases, samples

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Graph
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import resolve
from glowembed.quantize.simplify import simplify
from glowembed.quantize.types import quantize, typed_names
from glowembed.read.importer import load
from glowembed.reference import run_int

DIGESTS = {
    "logistic": "14b1da8cf786",
    "logistic of a wide range": "e0f636cc965d",
    "tanh": "bcadebe1ee3a",
    "tanh of a narrow range": "37a2186df645",
    "hard swish": "14da4bbae53e",
    "hard swish to fine steps": "e931eb2a6897",
    "hard swish to coarse steps": "e0cf5fd9fa6e",
    "leaky relu": "17606d8628b2",
    "leaky relu, halves": "d1f5f2ee5ead",
    "relu": "63ab3cb35dbd",
    "relu, halves": "490b49e2cbcc",
    "relu6": "5a960bc12813",
    "quantize": "95049267b08a",
    "quantize by two": "865fe45176e1",
    "quantize by four": "4b7d6a808392",
    "quantize of itself": "5a960bc12813",
    "elu": "78efdcb4e629",
    "abs": "350bf13784ce",
    "softmax": "373fbda1f567",
    "softmax of rows": "ef1468de46d1",
    "add": "8ce9b2be1fdc",
    "add relu": "799003f054bf",
    "add relu6": "fe8f9b9bdbe2",
    "add row": "74467a60b180",
    "add column": "9d44c1b71f49",
    "add constant row": "318010c23dbb",
    "add constant scalar": "c02025cbe143",
    "add constant tensor": "f38c354a967b",
    "sub": "63fe1f8fc3cc",
    "sub relu": "7266afef2625",
    "sub relu6": "8202a72e73c8",
    "sub row": "7c16bf7d283d",
    "sub column": "b440967f7f2e",
    "sub constant row": "092a57e9009b",
    "sub constant scalar": "d41b9d64a569",
    "sub constant tensor": "aaee3e242169",
    "mul": "4b3c149b669c",
    "mul relu": "6695eed58be7",
    "mul relu6": "0481f52bd0d6",
    "mul row": "a0ccccb47478",
    "mul column": "f1cad88c3306",
    "mul constant row": "896b9f84ce2c",
    "mul constant scalar": "2b9c584ae737",
    "mul constant tensor": "dcea692febd1",
    "add of one type": "0d0d01d2df98",
    "add of far scales": "b483083ce2bc",
    "maximum": "4d2e420004bb",
    "minimum": "740598e98841",
    "maximum constant": "eabcaca38afc",
    "average, same": "a3d3cb8d0ead",
    "average, valid": "034df6be0ce6",
    "average, relu": "ba913c6f050e",
    "maximum, same": "f6296f250454",
    "maximum, relu6": "b4265c8c23ce",
    "nearest, asymmetric (10, 12)": "6713fac5e3ff",
    "nearest, asymmetric (7, 9)": "a930e712bceb",
    "nearest, asymmetric (3, 4)": "42a349adc8ef",
    "nearest, half pixel (10, 12)": "6713fac5e3ff",
    "nearest, half pixel (7, 9)": "0fb867613399",
    "nearest, half pixel (3, 4)": "f5adfd58c49a",
    "nearest, aligned (10, 12)": "6713fac5e3ff",
    "nearest, aligned (7, 9)": "0343b16e3462",
    "nearest, aligned (3, 4)": "f5adfd58c49a",
    "mean of an image": "fff7ed0ee035",
    "mean of an image, kept": "d1abb77ec5d1",
    "mean of channels": "ab9aaffcd9f4",
    "mean of all": "30f602237ea1",
    "largest": "e6a99022a8db",
    "smallest": "92fe872db9cf",
    "conv": "12346089dc5c",
    "conv, one scale": "62a5a637c955",
    "conv, stride": "b4a4fc4ee600",
    "conv, valid, relu": "4637bd5b35d9",
    "conv, dilation": "f0804a2ef206",
    "conv, 1x1": "30c13ecec41c",
    "conv, groups": "90a8267ee026",
    "conv, fine steps": "53c7af0cab79",
    "conv, int4": "62a2aef55855",
    "depthwise": "b410a6b4aab5",
    "depthwise, two filters": "4fd1ac6e186d",
    "fully connected": "4017e0c0d4c5",
    "fully connected, scales": "3c6cb7a66061",
    "fully connected, rows": "815ffa655609",
    "fully connected, image": "4017e0c0d4c5",
    "fully connected, int4": "5a6adc9cc012",
    "transposed": "20507e9d1885",
    "transposed, valid": "b437228cb340",
    "product": "3d119ed29201",
    "product, adjoint": "046711a9f142",
    "product, constant": "611db4f75b6c",
    "reshape": "d105a4677368",
    "transpose": "1fc4a66cdaf8",
    "pad": "c8184e03091c",
    "pad channels": "4fdd2d242e1e",
    "reflect": "6d2b8bb57fa9",
    "mirror": "185302d726f0",
    "slice": "d4e5ffd35fbc",
    "strided slice": "a3a7fa78cbd0",
    "split": "582b54328260",
    "split by sizes": "f5c330104cb1",
    "unpack": "e51b5932fd65",
    "depth to space": "a1c8212237fa",
    "space to depth": "d9eba4eabb86",
    "gather": "9c190124a3cf",
    "squeeze": "d105a4677368",
    "expand": "d105a4677368",
    "reverse": "5cd458ee66c8",
    "argmax": "5c06ac4cfaae",
    "argmin": "17f326237781",
    "concat": "a2294c3c658f",
    "pack": "be682326bb97",
    "select": "4babad47c18d",
    "lstm": "d59414a1d255",
    "lstm, time first": "753b09a698a0",
    "lstm, one unit": "29269daa94ce",
    "lstm, clip": "5a0adbe73468",
}
"""The beginning of the sha256 of all outputs of all samples, by tflite_micro 0.dev20261023182759."""

CASES = cases()


def kernels_of(path: Path) -> Graph:
    """The graph that a bundle executes, of a model that has its own types."""
    graph = canonicalize(load(path))
    typed = quantize(graph, lambda name, _: pytest.fail(f"{name} has no type"), resolve(graph))
    return lower(simplify(typed, typed_names(graph))[0])


def test_every_case_is_recorded() -> None:
    assert CASES.keys() == DIGESTS.keys()


@pytest.mark.parametrize("name", CASES)
def test_bits(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(CASES[name])
    graph = kernels_of(path)
    inputs = [graph.values[x] for x in graph.inputs]
    assert all(v.layout is None for v in inputs)
    found = []
    for sample in range(SAMPLES):
        given = {v.name: samples(v.shape, "int8" if v.qtype else v.dtype, i)[sample] for i, v in enumerate(inputs)}
        made = run_int(graph, given)
        found += [np.ascontiguousarray(graph.values[y].logical(made[y])).tobytes() for y in graph.outputs]
    assert hashlib.sha256(b"".join(found)).hexdigest()[:12] == DIGESTS[name]
