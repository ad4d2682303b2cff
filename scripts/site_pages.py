"""A hook of mkdocs: files of the repository outside docs/ that documents link to become files of the site, below repository/.

In: the documents. Out: the same, with links that lead out of docs/ turned to these files; a folder is turned to its README.md.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s#:]+)([)#])")
DOCS = PurePosixPath("docs")
PLACE = PurePosixPath("repository")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that are linked to, and those that they link to."""
    waiting = [(DOCS / file.src_uri, Path(file.abs_src_path)) for file in files.documentation_pages()]
    while waiting:
        name, path = waiting.pop()
        for target in (_target(name, found[2]) for found in LINK.finditer(path.read_text("utf-8"))):
            if target is None or target.is_relative_to(DOCS) or (uri := str(PLACE / target)) in files.src_uris:
                continue
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
            if target.suffix == ".md":
                waiting.append((target, ROOT / target))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the links of a document to where the files are in the site."""
    uri = PurePosixPath(page.file.src_uri)
    name = uri.relative_to(PLACE) if uri.is_relative_to(PLACE) else DOCS / uri

    def turned(found: re.Match[str]) -> str:
        target = _target(name, found[2])
        if target is None:
            return found[0]
        there = target.relative_to(DOCS) if target.is_relative_to(DOCS) else PLACE / target
        up = "../" * (len(uri.parts) - 1)
        return f"{found[1]}{up}{there}{found[3]}"

    return LINK.sub(turned, markdown)


def _target(name: PurePosixPath, link: str) -> PurePosixPath | None:
    """The file of the repository that a link in the document `name` leads to; None if there is none."""
    path = (ROOT / name.parent / link).resolve()
    path = path / "README.md" if path.is_dir() and (path / "README.md").is_file() else path
    return PurePosixPath(path.relative_to(ROOT).as_posix()) if path.is_file() and path.is_relative_to(ROOT) else None
