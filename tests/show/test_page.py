"""The HTML page of a validation: whole, self-contained, and opened by a real browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glowembed.judge.debugging import LayerReport, Loss
from glowembed.judge.validation import Validation
from glowembed.show.page import page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
NAME = "<b>dense</b>"


def validation(**changes: object) -> Validation:
    generator = np.random.default_rng(1)
    floats = generator.normal(size=(50, 4)).astype(np.float32)
    labels = floats.argmax(axis=1)
    layer = {
        "name": "conv & relu",
        "op": "conv2d_s8",
        "kernel": "k",
        "macs": 100,
        "instructions": 10,
        "cycles_estimate": 12,
    }
    json = {
        "model": "net.onnx", "target": "cortex-m4", "board": "nucleo-l4r5zi", "transport": "serial", "samples": 50,
        "bit_exact": False, "first_difference": {"layer": "conv & relu", "sample": 3},
        "outputs": [{"name": NAME, "cosine": 1.0, "rmse": 0.1, "max_abs": 0.2, "sqnr_db": 30.0, "top1_agreement": None}],
        "accuracy": {"metric": "top1", "float": 1.0, "quantized": 0.9}, "instructions": 1000, "cycles_estimate": None,
        "cycles_measured": 1234, "latency_us": 10.5, "macs": 100, "layers": [{**layer, "cycles_measured": 11}],
        "memory": {
            "arena": 96, "arena_liveness_bound": 128, "stack": 8, "stack_computed": 16, "data": 0, "bss": 0,
            "weights": 100, "code": 200, "rodata": 3,
        },
        "line": {
            "bytes": 22, "overhead": 0.1, "bytes_per_second": 9.0, "baud": 115200, "capacity_share": 0.01, "requests": 1,
            "retries": 0, "sessions": 1, "seconds": 2.0,
        },
    }  # fmt: skip
    manifest = {
        "name": "net",
        "arena": {"size": 96, "liveness_bound": 128},
        "layers": [layer],
        "schedule": {"groups": [], "row_bound": 80, "proof": "optimal", "calls_by_layer": [0, 0], "live": [80, 96]},
        "buffers": [
            {"values": ["input"], "offset": 0, "bytes": 64, "birth": -1, "death": 0},
            {"values": ["rows"], "bytes": 16, "rows": [[64, 0, 0], [80, 0, 1]]},
        ],
    }
    given = {"labels": labels, "manifest": manifest, "floats": {NAME: floats}, "found": {NAME: floats + 0.01}}
    return Validation(json, False, **{**given, **changes})  # type: ignore[arg-type]


class Balanced(HTMLParser):
    """Every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("changes", [{}, {"labels": None}, {"manifest": {}}])
def test_the_page_is_whole(changes: dict[str, object]) -> None:
    text = page(validation(**changes))
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    assert "<b>dense" not in text
    own = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"(src|href)=|url\(|https?://", own), "it must need nothing else"
    assert ("Confusion matrix" in text) == ("labels" not in changes)
    assert ("Memory over time" in text) == ("manifest" not in changes)
    assert "SQNR of the layer" not in text, "nothing is known of it"
    for words in ("NOT bit-exact", "Float model and device", "conv &amp; relu", "1,234", "stack, computed worst case"):
        assert words in text
    assert text == page(validation(**changes))


def lost() -> tuple[LayerReport, ...]:
    loss = Loss(40.0, 1.0, 2.0)
    return (
        LayerReport("conv & relu", "conv2d_s8", "y", None, 0.0, loss, loss),
        LayerReport("x", "x", "x", None, 0, None, None),
    )


def test_what_layers_lose() -> None:
    text = page(validation(), lost())
    assert text.count("40.0 dB") == 2
    assert "error against float of the layer alone" in text
    assert ">1 %<" in text


def test_a_browser_shows_it(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}; Debian package chromium)")
    (tmp_path / "page.html").write_text(page(validation(), lost()), encoding="utf-8")
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    address = (tmp_path / "page.html").as_uri()
    done = subprocess.run([*common, "--dump-dom", address], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("<svg") == 5
    assert done.stdout.count("<circle") == 200
    assert done.stdout.count("<rect") == 16 + 1 + 1 + 4
