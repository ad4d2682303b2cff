"""Where the checkout lies, and where the shared models are looked for."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("GLOWEMBED_SHARED", ROOT.parent / "shared")) / "models"
