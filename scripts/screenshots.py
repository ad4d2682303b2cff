"""Makes the pictures of docs/pages.md with Chromium: the pages of the carried example, as a reader sees them.

./glow run python scripts/screenshots.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from glowembed.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
DARK = "--blink-settings=preferredColorScheme=0"
# name of the picture, page, width, height, more options
PICTURES = (
    ("try", "try", 1280, 900, ()),
    ("validate-dark", "validate", 1280, 900, (DARK,)),
    ("measure-phone", "measure", 500, 900, ()),
)


def pages(folder: Path) -> None:
    """The pages that are shown, as FOLDER/NAME.html."""
    model, data = (str(ROOT / "examples" / "digits" / name) for name in ("model.onnx", "data.npz"))
    out = folder / "out"
    commands = (
        ["try", model, data, "-o", str(out), "--html", str(folder / "try.html")],
        ["validate", str(out / "cortex-m4"), "--data", data, "--layers", "--html", str(folder / "validate.html")],
        ["measure", str(out / "cortex-m4"), "--html", str(folder / "measure.html")],
    )
    for words in commands:
        if main(words) != 0:
            sys.exit(f"glowembed {words[0]} failed")


def run() -> None:
    """Write all pictures."""
    browser = shutil.which("chromium") or sys.exit("chromium is missing: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages(folder)
        common = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder / 'user'}",
        ]
        for picture, page, width, height, more in PICTURES:
            target = [f"--window-size={width},{height}", f"--screenshot={IMAGES / picture}.png"]
            address = (folder / f"{page}.html").as_uri()
            subprocess.run([*common, *more, *target, address], check=True, capture_output=True)


if __name__ == "__main__":
    run()
