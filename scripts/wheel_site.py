"""A hook of hatch: the documents, built as a site by mkdocs, travel in the wheel as glowembed/_data/site.

In: the checkout. Out: the folder for the wheel. Where mkdocs is not installed (docs/requirements.txt) the wheel has no site, and the build says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "glowembed/_data/site"
A_DATE = "1580601600"
"""The date in the site if the environment names none: that of hatch's own files, so that the same checkout gives the same wheel."""


class SiteHook(BuildHookInterface):
    """Builds the site before a wheel is made; an editable installation needs none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        if shutil.which("mkdocs") is None:
            self.app.display_warning(
                "mkdocs is not installed (docs/requirements.txt): the wheel has no documentation site"
            )
            return
        site = Path(self.root) / "build" / "wheel-site"
        command = ["mkdocs", "build", "--strict", "--quiet", "--clean", "--site-dir", str(site)]
        date = {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", A_DATE), "NO_MKDOCS_2_WARNING": "1"}
        subprocess.run(command, cwd=self.root, check=True, env=os.environ | date)
        build_data["force_include"][str(site)] = PLACE
