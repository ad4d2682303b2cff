"""Tests of functions of one number: lut_s8."""

import numpy as np
import pytest
from checker import SIZES, case, check_op

pytestmark = pytest.mark.cc

X = (1, 3, 4, 5)
SIMPLE = ("Abs", "Celu", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Neg", "Relu", "Selu", "Sigmoid", "Softplus")
SIMPLE += ("Softsign", "Tanh", "ThresholdedRelu")
NEWER = {"HardSwish": 14, "Mish": 18, "Gelu": 20}


def number(x):
    return np.asarray(x, dtype=np.float32)


CASES = [
    *(case(kind, kind, X) for kind in SIMPLE),
    *(case(kind, kind, X, opset=opset) for kind, opset in NEWER.items()),
    *(case(f"Relu {n}", "Relu", (1, n)) for n in SIZES),
    *(
        case(f"{kind} wide", kind, X, low=-30.0, high=30.0)
        for kind in ("Sigmoid", "Tanh", "Elu", "Softplus", "HardSwish")
    ),
    *(case(f"{kind} narrow", kind, X, low=-0.01, high=0.02) for kind in ("Sigmoid", "Tanh", "Relu", "LeakyRelu")),
    *(case(f"{kind} above 0", kind, X, low=0.5, high=9.0) for kind in ("Sqrt", "Log", "Reciprocal", "Relu")),
    *(case(f"{kind}", kind, X, low=-9.0, high=9.0) for kind in ("Floor", "Ceil", "Round")),
    case("Gelu tanh", "Gelu", X, opset=20, approximate="tanh"),
    case("LeakyRelu 0.3", "LeakyRelu", X, alpha=0.3),
    case("LeakyRelu negative", "LeakyRelu", X, alpha=-0.5),
    case("Elu 2", "Elu", X, alpha=2.0),
    case("HardSigmoid 1/6", "HardSigmoid", X, alpha=1 / 6, beta=0.4, low=-6.0, high=6.0),
    case("ThresholdedRelu 0.5", "ThresholdedRelu", X, alpha=0.5),
    case("PRelu one slope", "PRelu", X, number([0.25])),
    case("Clip", "Clip", X, number(-1.0), number(1.5)),
    case("Clip nothing", "Clip", X),
    case("Clip min only", "Clip", X, number(-1.0)),
    case("Clip max only", "Clip", X, None, number(0.5)),
    case("Clip relu6", "Clip", X, number(0.0), number(6.0), low=-9.0, high=9.0),
    case("Clip largest float", "Clip", X, number(0.0), number(np.finfo(np.float32).max)),
    case("Clip min above max", "Clip", X, number(1.0), number(-1.0)),
    case("Clip opset 7", "Clip", X, opset=7, min=0.0, max=6.0),
    case("Clip opset 7 nothing", "Clip", X, opset=7),
    case("Relu opset 7", "Relu", X, opset=7),
    case("Relu all negative", "Relu", X, low=-3.0, high=-1.0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_activation(case):
    check_op(case, steps=0.501)
