"""Train the digits network and write model.onnx and data.npz beside this file.

Not needed to run the example: both files are in the repository. Run it with

    pip install -e '.[train]' && python examples/digits/train.py

Seeded and single-threaded, so that the same versions give the same weights. The held-back images are
looked at once, at the end; nothing is chosen by them.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

HERE = Path(__file__).parent
SEED = 0
EPOCHS = 150
BATCH = 64
HELD_BACK = 450
CALIBRATION = 128
PIXEL_SCALE = np.float32(1 / 16)  # pixels are stored as integers 0..16


def named(**layers: nn.Module) -> nn.Sequential:
    """Layers in order; their names become those of the ONNX nodes."""
    return nn.Sequential(OrderedDict(layers))


def conv_bn_relu(inputs: int, outputs: int, kernel: int, groups: int = 1) -> nn.Sequential:
    """A convolution with "same" padding; BatchNorm stays a layer of its own, folding is the compiler's."""
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return named(conv=conv, bn=nn.BatchNorm2d(outputs), relu=nn.ReLU())


def network() -> nn.Module:
    """One of each layer that a small vision network has."""
    return named(
        stem=conv_bn_relu(1, 16, kernel=3),
        halve=nn.MaxPool2d(2),
        widen=conv_bn_relu(16, 32, kernel=3),
        depthwise=conv_bn_relu(32, 32, kernel=3, groups=32),
        pointwise=conv_bn_relu(32, 48, kernel=1),
        average=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        classify=nn.Linear(48, 10),
    )


def jitter(images: Tensor) -> Tensor:
    """Turn, stretch and shift each image a little, so that 1,347 images do for training."""
    count = images.shape[0]
    angle = (torch.rand(count) - 0.5) * 0.35
    scale = 1 + (torch.rand(count, 2) - 0.5) * 0.25
    shift = (torch.rand(count, 2) - 0.5) * 0.4
    rows = [
        torch.stack([scale[:, 0] * angle.cos(), -angle.sin(), shift[:, 0]], dim=1),
        torch.stack([angle.sin(), scale[:, 1] * angle.cos(), shift[:, 1]], dim=1),
    ]
    grid = nn.functional.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def train(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Adam with one cycle of the learning rate and smoothed labels."""
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(jitter(images[batch])), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    model.eval()


def export(model: nn.Module, path: Path) -> None:
    """NCHW, batch 1, BatchNormalization left as it is."""
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, 8, 8),),
        path,
        input_names=["image"],
        output_names=["logits"],
        opset_version=17,
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )


def to_float(pixels: np.ndarray) -> np.ndarray:
    """Stored pixels as the network sees them: 0..1, NCHW."""
    return pixels.astype(np.float32) * PIXEL_SCALE


def accuracy(path: Path, pixels: np.ndarray, labels: np.ndarray) -> float:
    """Share of images that onnxruntime classifies rightly."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    logits = [session.run(None, {"image": image[None]})[0] for image in to_float(pixels)]
    return float((np.concatenate(logits).argmax(axis=1) == labels).mean())


def main() -> None:
    """Train, export, and write the data that the example carries."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8).reshape(-1, 1, 8, 8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels.astype(np.uint8), test_size=HELD_BACK, stratify=labels, random_state=SEED
    )

    model = network()
    train(model, torch.from_numpy(to_float(train_x)), torch.from_numpy(train_y).long())
    export(model, HERE / "model.onnx")
    np.savez_compressed(
        HERE / "data.npz",
        calib_x=train_x[:CALIBRATION],
        test_x=test_x,
        test_y=test_y,
        x_scale=PIXEL_SCALE,
        x_zero=np.float32(0),
    )
    print(f"parameters: {sum(p.numel() for p in model.parameters())}")
    print(f"float accuracy on {HELD_BACK} held-back images: {accuracy(HERE / 'model.onnx', test_x, test_y):.2%}")


if __name__ == "__main__":
    main()
