"""The pages of the commands: whole, self-contained, the same bytes for the same result, and laid out well in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glowembed.__main__ import main
from glowembed.graph.plan import Tradeoff
from glowembed.judge.debugging import LayerReport, Loss
from glowembed.judge.tune import Evaluation, Tuned
from glowembed.judge.validation import Validation
from glowembed.show.page import views

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
NAME = "<b>dense</b>"
LAYER = {
    "name": "conv & relu", "op": "conv2d_s8", "kernel": "k", "macs": 100, "instructions": 10, "cycles_estimate": 12,
}  # fmt: skip
LOST = (
    LayerReport("conv & relu", "conv2d_s8", "y", None, 0.0, Loss(40.0, 1.0, 2.0), Loss(40.0, 1.0, 2.0)),
    LayerReport("x", "x", "x", None, 0, None, None),
)


def validation(**changes: object) -> Validation:
    generator = np.random.default_rng(1)
    floats = generator.normal(size=(50, 4)).astype(np.float32)
    labels = floats.argmax(axis=1)
    result = {
        "model": "net.onnx", "target": "cortex-m4", "board": "nucleo-l4r5zi", "transport": "serial",
        "toolchain": "GCC: (arm) 12.2.1", "samples": 50,
        "bit_exact": False, "first_difference": {"layer": "conv & relu", "sample": 3},
        "outputs": [{"name": NAME, "cosine": 1.0, "rmse": 0.1, "max_abs": 0.2, "sqnr_db": 30.0, "top1_agreement": None}],
        "accuracy": {"metric": "top1", "float": 1.0, "quantized": 0.9}, "instructions": 1000, "cycles_estimate": None,
        "cycles_measured": 1234, "latency_us": 10.5, "macs": 100, "layers": [{**LAYER, "cycles_measured": 11}],
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
        "layers": [LAYER],
        "schedule": {"groups": [], "row_bound": 80, "proof": "optimal", "calls_by_layer": [0, 0], "live": [80, 96]},
        "buffers": [
            {"values": ["input"], "offset": 0, "bytes": 64, "birth": -1, "death": 0},
            {"values": ["rows"], "bytes": 16, "rows": [[64, 0, 0], [80, 0, 1]]},
        ],
    }
    given = {"labels": labels, "manifest": manifest, "floats": {NAME: floats}, "found": {NAME: floats + 0.01}}
    return Validation(result, False, **{**given, **changes})  # type: ignore[arg-type]


class Balanced(HTMLParser):
    """Every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_whole(text: str) -> None:
    """The page is well-formed, and loads nothing."""
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    own = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"(src|srcset|action)=|url\((?!#)|https?://|@import", own), "it must need nothing else"
    assert set(re.findall(r'href="(.)', own)) <= {"#"}


@pytest.mark.parametrize("changes", [{}, {"labels": None}, {"manifest": {}}])
def test_a_validation(changes: dict[str, object]) -> None:
    text = views.validation(validation(**changes))
    check_whole(text)
    assert "<b>dense" not in text
    assert ("Confusion matrix" in text) == ("labels" not in changes)
    assert ("Memory over time" in text) == ("manifest" not in changes)
    assert "SQNR alone" not in text, "nothing is known of it"
    for words in ("NOT bit-exact", "float model and device", "1,234", "stack, computed worst case"):
        assert words in text
    assert ("conv &amp; relu</td>" in text) == ("manifest" not in changes)
    assert text == views.validation(validation(**changes))


def test_what_layers_lose() -> None:
    text = views.validation(validation(), losses=LOST)
    assert text.count("40.0 dB") == 2
    assert "Error of the layers" in text
    assert ">1 %<" in text


def test_the_date_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "UTC" not in views.validation(validation())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert "2023-11-14 22:13 UTC" in views.validation(validation())


def tuned(reached: bool = True) -> Tuned:
    lifted = (("conv & relu", "int16"),)
    tried = {(): Evaluation(0.9, 0.2, 100, 2000, 1e6), lifted: Evaluation(0.95, 0.1, 180, 2100, 1.1e6)}
    return Tuned(0.94, 0.96, lifted if reached else None, 7, tried)


@pytest.mark.parametrize("reached", [True, False])
def test_a_search_for_precision(reached: bool) -> None:
    text = views.tuned(tuned(reached), "<net>")
    check_whole(text)
    assert ("1 of 7 nodes lifted" in text) == reached
    assert "conv &amp; relu: int16" in text
    assert "<net>" not in text


def pages(digits: Path, folder: Path) -> dict[str, str]:
    """The page of every command that writes one, for a small network."""
    model, data, bundle = str(digits / "model.onnx"), str(digits / "data.npz"), str(folder / "bundle")
    commands = {
        "compile": ["compile", model, "--data", data, "-o", bundle, "--curve", "curve.html", "--plot", "profile.html"],
        "inspect": ["inspect", model, "--target", "cortex-m4", "--coverage", "--html", "model.html"],
        "contents": ["inspect", bundle, "--html", "bundle.html", "--memory-map", "memory.html"],
        "validate": ["validate", bundle, "--data", data, "--samples", "20", "--layers", "--html", "validate.html"],
        "measure": ["measure", bundle, "--hot", "1", "--html", "measure.html", "--store", str(folder / "store")],
    }
    for words in commands.values():
        assert main([str(folder / word) if word.endswith(".html") else word for word in words]) == 0
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.html"))}


@pytest.fixture(scope="module")
def written(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = pages(digits, tmp_path_factory.mktemp("pages"))
    point = Tradeoff(100, 1e6, 9e5)
    return found | {
        "tune": views.tuned(tuned(), "net"),
        "failed": views.validation(validation(), losses=LOST),
        "curve of one": views.curve("net", [point], point),
    }


def test_every_page_is_whole(written: dict[str, str]) -> None:
    assert {"bundle", "curve", "failed", "measure", "memory", "model", "profile", "tune", "validate"} <= written.keys()
    for text in written.values():
        check_whole(text)
        assert len(text) < 1_000_000
    assert "this bundle" in written["curve"]
    assert "MODEL_ARENA_SIZE" not in written["bundle"]
    assert "_run(&amp;" in written["bundle"], "it shows how to call the network"
    assert "cycles/MAC" in written["measure"]
    assert 'class="words good">yes</td>' in written["validate"]


# What a reader would call broken: a page wider than the window, text that is cut, labels of a picture on each other.
CHECK = """
<script>
  document.querySelectorAll("details").forEach((each) => (each.open = true));
  const broken = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) broken.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}`);
  document.querySelectorAll("body *").forEach((each) => {
    const style = getComputedStyle(each);
    if (each.scrollWidth > each.clientWidth + 1 && style.overflowX === "hidden") broken.push("cut: " + each.textContent);
  });
  document.querySelectorAll("svg").forEach((svg) => {
    const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent);
    const boxes = texts.map((each) => each.getBoundingClientRect()), frame = svg.getBoundingClientRect();
    boxes.forEach((a, i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        broken.push("outside: " + texts[i].textContent);
      boxes.slice(0, i).forEach((b, j) => {
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
          broken.push(`on each other: ${texts[j].textContent} | ${texts[i].textContent}`);
      });
    });
  });
  const table = document.querySelector("table.sortable");
  if (table) {
    const column = [...table.querySelectorAll("th")].findIndex((each) => each.textContent.trim() === "MACs");
    const numbers = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].dataset.value));
    if (column >= 0) {
      table.querySelectorAll("th button")[column].click();
      if (numbers().some((each, i, all) => i && each > all[i - 1])) broken.push("not sorted: " + numbers());
    }
    const filter = table.closest("section").querySelector("input");
    filter.value = "no such row";
    filter.dispatchEvent(new Event("input"));
    if ([...table.tBodies[0].rows].some((row) => !row.hidden)) broken.push("not filtered");
  }
  const told = document.createElement("pre");
  told.id = "verdict";
  told.textContent = JSON.stringify(broken);
  document.body.append(told);
</script>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a browser that starts here, without the address."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}; Debian package chromium)")
    folder = tmp_path_factory.mktemp("browser")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
    try:
        subprocess.run([found, *flags, "--dump-dom", "about:blank"], capture_output=True, timeout=240, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"{found} does not start here: {error}")
    return [found, *flags]


@pytest.mark.parametrize("width", [380, 1600])
def test_a_browser_shows_every_page(width: int, browser: list[str], written: dict[str, str], tmp_path: Path) -> None:
    # one page of frames: a browser takes a second to start, and headless windows are not narrower than 500 pixels
    frames = "".join(
        f'<iframe style="width:{width}px;height:800px" srcdoc="{text.replace("</body>", CHECK + "</body>").translate({38: "&amp;", 34: "&quot;"})}"></iframe>'
        for text in written.values()
    )  # fmt: skip
    gather = (
        "<script>onload = () => document.body.textContent = JSON.stringify([...document.querySelectorAll('iframe')].map("
        "(each) => each.contentDocument.querySelector('#verdict')?.textContent ?? 'no verdict'))</script>"
    )
    (tmp_path / "all.html").write_text(f"<!DOCTYPE html><body>{frames}{gather}</body>", encoding="utf-8")
    done = subprocess.run(
        [*browser, "--window-size=1700,900", "--dump-dom", (tmp_path / "all.html").as_uri()],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    found = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:]
    verdicts = json.loads(unescape(found[1]))
    assert dict(zip(written, verdicts, strict=True)) == dict.fromkeys(written, "[]")
