"""int8 networks against the Cortex-M backend of ExecuTorch: the RAM that it plans and the size of its program file.

    python benchmarks/executorch_plan.py [FOLDER]

Run it in an environment with `executorch`, `torch`, `torchao`, `tosa-tools`, `ml_dtypes`, `onnx` and `onnxscript` from PyPI. The networks are those of
MLPerf Tiny that ExecuTorch brings, with random weights. Each is quantized for Cortex-M4 and planned as ExecuTorch's own tests do it, and saved as
FOLDER/NAME.onnx (default: build/executorch), from which `glowembed compile --random 4` makes a bundle. The package has no runtime for a
Cortex-M, so that nothing is run: cycles, stack and the code of the runtime are not compared.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.examples.models.mlperf_tiny.deep_autoencoder import DeepAutoEncoder
from executorch.examples.models.mlperf_tiny.ds_cnn import DSCNNKWS
from executorch.examples.models.mlperf_tiny.mobilenet_v1_025 import MobileNetV1025
from executorch.examples.models.mlperf_tiny.resnet8 import ResNet8
from executorch.exir import ExecutorchBackendConfig, to_edge
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

NETWORKS = {
    "ds_cnn": (DSCNNKWS, (1, 1, 49, 10)),
    "resnet8": (ResNet8, (1, 3, 32, 32)),
    "mobilenet_v1_025": (MobileNetV1025, (1, 3, 96, 96)),
    "deep_autoencoder": (DeepAutoEncoder, (1, 640)),
}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/executorch")
    folder.mkdir(parents=True, exist_ok=True)
    print("| network | program file, bytes | planned RAM, bytes |")
    print("|---|---|---|")
    torch.manual_seed(0)
    for name, (network, shape) in NETWORKS.items():
        model = network().eval()
        sample = torch.randn(shape)
        torch.onnx.export(model, (sample,), folder / f"{name}.onnx", dynamo=True, external_data=False)
        program, planned = planned_by_executorch(model, sample)
        print(f"| {name} | {program:,} | {planned:,} |", flush=True)


def planned_by_executorch(model: torch.nn.Module, sample: torch.Tensor) -> tuple[int, int]:
    """The bytes of the .pte file and of the buffers that its memory plan asks for, for Cortex-M4."""
    if sample.dim() == 4:
        sample = sample.to(memory_format=torch.channels_last)
    prepared = prepare_pt2e(
        torch.export.export(model, (sample,), strict=True).module(check_guards=False), CortexMQuantizer()
    )
    for _ in range(4):
        prepared(torch.randn_like(sample))
    quantized: Any = torch.export.export(convert_pt2e(prepared), (sample,), strict=True)
    edge = to_edge(quantized, compile_config=cortex_m_edge_compile_config())
    target = CortexMTargetConfig(cpu=CortexM.M4)
    passes = CortexMPassManager(edge.exported_program(), CortexMPassManager.pass_list, target_config=target)
    edge._edge_programs["forward"] = passes.transform()  # as ExecuTorch's test harness does it; there is no public way
    program = edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False))
    return len(program.buffer), sum(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


if __name__ == "__main__":
    main()
