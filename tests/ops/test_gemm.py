"""Tests of Gemm and MatMul: fc_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op, weights

pytestmark = pytest.mark.cc

CASES = [
    *(case(f"gemm {n} to {34 - n}", "Gemm", (1, n), weights(n, 34 - n), weights(34 - n, seed=2)) for n in SIZES),
    *(case(f"gemm {m} rows", "Gemm", (m, 9), weights(9, 5), weights(5, seed=2)) for m in SIZES),
    case("transB", "Gemm", (2, 7), weights(5, 7), weights(5, seed=2), transB=1),
    case("transA", "Gemm", (7, 3), weights(7, 5), weights(5, seed=2), transA=1),
    case("transA and transB", "Gemm", (7, 1), weights(5, 7), None, transA=1, transB=1),
    case("alpha and beta", "Gemm", (2, 7), weights(7, 5), weights(5, seed=2), alpha=0.5, beta=-2.0),
    case("alpha, transB", "Gemm", (2, 7), weights(5, 7), None, transB=1, alpha=-1.5),
    case("beta 0", "Gemm", (2, 7), weights(7, 5), weights(5, seed=2), beta=0.0),
    case("no bias", "Gemm", (2, 7), weights(7, 5)),
    case("no bias, opset 11", "Gemm", (2, 7), weights(7, 5), opset=11),
    case("opset 7", "Gemm", (2, 7), weights(7, 5), weights(5, seed=2), opset=7),
    case("bias scalar", "Gemm", (2, 7), weights(7, 5), np.float32(0.7)),
    case("bias of one", "Gemm", (2, 7), weights(7, 5), weights(1)),
    case("bias row", "Gemm", (2, 7), weights(7, 5), weights(1, 5, seed=2)),
    case("bias column of one", "Gemm", (1, 7), weights(7, 5), weights(1, 1, seed=2)),
    case("bias equal rows", "Gemm", (3, 7), weights(7, 5), np.tile(weights(1, 5, seed=2), (3, 1))),
    case("all negative", "Gemm", (1, 16), weights(16, 5), weights(5, seed=2), low=-9.0, high=-1.0),
    case("all positive", "Gemm", (1, 16), weights(16, 5), weights(5, seed=2), low=1.0, high=9.0),
    case("large bias", "Gemm", (1, 4), weights(4, 3), weights(3, scale=1000.0)),
    case("zero channel", "Gemm", (1, 4), weights(4, 3) * np.float32([0, 1, 20]), None),
    *(case(f"matmul {n}", "MatMul", (1, n), weights(n, 6)) for n in SIZES),
    case("matmul rank 3", "MatMul", (1, 5, 8), weights(8, 6)),
    case("matmul rank 4", "MatMul", (2, 3, 5, 8), weights(8, 6)),
    case("matmul vector times matrix", "MatMul", (8,), weights(8, 6)),
    case("matmul matrix times constant vector", "MatMul", (1, 5, 8), weights(8)),
    case("matmul constant of rank 3", "MatMul", (1, 5, 8), weights(1, 8, 6)),
    case("matmul constant first", "MatMul", weights(6, 8), (8, 5)),
    case("matmul constant first, batch", "MatMul", weights(6, 8), (2, 8, 5)),
    case("matmul constant of rank 3 first", "MatMul", weights(1, 6, 8), (2, 8, 5)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gemm(case):
    check_op(case)
