"""Combines several bundles into one program with one arena. In: folders of bundles. Out: one folder with all their C
files, a header with the arena that they share, and files for build systems.

The shared arena is as large as the largest arena of the bundles. Networks run one at a time, and each overwrites what
the previous one left in the arena. Therefore a network with a state has a separate arena.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glowembed.emit import buildfiles
from glowembed.errors import UsageError
from glowembed.files.output import check_out_dir, write_folder
from glowembed.files.source import read_bytes
from glowembed.graph import cnames
from glowembed.graph.target import target_of
from glowembed.image import glue
from glowembed.version import VERSION

MARKER = "combined.json"
SCHEMA = 1


def combine(bundles: Sequence[Path], out_dir: Path, name: str = "combined") -> Mapping[str, Any]:
    """Write the folder and return its manifest (combined.json). An existing folder of combined bundles is replaced as a
    whole.

    Raises UsageError for bundles of different targets, for two of the same name, and for a name that is already taken.
    """
    check_out_dir(out_dir, "combined bundles", MARKER)
    manifests = [glue.read_manifest(path) for path in bundles]
    name = cnames.identifier(name)
    _check(manifests, name)
    sources = [source for manifest in manifests for source in glue.c_sources(manifest)]
    sharing = [m for m in manifests if not m.get("state")]
    arena = {key: max(int(m["arena"][key]) for m in sharing) for key in ("size", "align")}
    manifest = {
        "schema": SCHEMA,
        "name": name,
        "generator": f"glowembed {VERSION}",
        "target": manifests[0]["target"],
        "arena": arena,
        "bundles": [
            {
                "name": m["name"],
                "hash": m["hash"],
                "arena": m["arena"]["size"],
                "weights_bytes": m["weights_bytes"],
                **({"state": m["state"]["size"]} if m.get("state") else {}),
            }
            for m in manifests
        ],
        "sources": sources,
    }
    files = {file: content for m, path in zip(manifests, bundles, strict=True) for file, content in _files(m, path)}
    files[f"{name}.h"] = _header(manifest).encode("ascii")
    files |= {file: text.encode("ascii") for file, text in _build_files(manifests, name, sources).items()}
    files[MARKER] = (json.dumps(manifest, indent=1) + "\n").encode("ascii")
    write_folder(out_dir, dict(sorted(files.items())))
    return manifest


def _check(manifests: Sequence[glue.Manifest], name: str) -> None:
    if len(manifests) < 2:
        raise UsageError("combine needs two or more bundles")
    targets = sorted({m["target"] for m in manifests})
    if len(targets) > 1:
        raise UsageError(f"the bundles are for different targets: {', '.join(targets)}; compile all for one")
    names = [m["name"] for m in manifests]
    twice = next((n for n in names if [x.lower() for x in [*names, name]].count(n.lower()) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two of these are named {twice!r}: give each a name of its own with 'compile --name' (or --name here)"
        )
    if all(m.get("state") for m in manifests):
        raise UsageError(
            f"{', '.join(names)} all keep a state in their arenas, so there is none that they could share: add the bundles to"
            " your program one by one, each with an arena of its own"
        )
    files = [m["weights"]["file"] for m in manifests if m.get("weights", {}).get("file")]
    if len(files) != len(set(files)):
        raise UsageError(
            "two bundles have weights files of the same name: compile one with another --weights file:NAME"
        )


def _files(manifest: glue.Manifest, path: Path) -> list[tuple[str, bytes]]:
    """The files that a program needs; the name of each contains the bundle's name."""
    own = manifest.get("weights", {}).get("file")
    names = [*glue.c_sources(manifest), *manifest["headers"], *([own] if own else [])]
    return [(file, read_bytes(path / file)) for file in names]


def _header(manifest: Mapping[str, Any]) -> str:
    name, arena, bundles = manifest["name"], manifest["arena"], manifest["bundles"]
    prefix = name.upper()
    includes = "".join(f'#include "{b["name"]}.h"\n' for b in bundles)
    needs = "".join(f" *   {b['name']:<20} {b['arena']:9} bytes\n" for b in bundles)
    calls = "".join(f" *   {b['name']}_run(&arena)\n" for b in bundles if "state" not in b)
    own = "".join(
        f" *   static {b['name'].upper()}_ARENA({b['name']}_arena);  its own, because it keeps a state: {b['name']}_reset(&{b['name']}_arena),"
        f" {b['name']}_run(&{b['name']}_arena)\n"
        for b in bundles
        if "state" in b
    )
    return f"""/* {name}: {len(bundles)} networks that share one arena. Made by glowembed {VERSION}; do not edit.
 *
 *   static {prefix}_ARENA(arena);
{calls}{own} *
 * One network runs at a time, and overwrites what the others have in the arena: take the outputs of one before you write
 * the inputs of the next. Each header is the manual of its network.
 *
{needs} *   shared               {arena["size"]:9} bytes
 */
#ifndef {prefix}_H
#define {prefix}_H

{includes}
#define {prefix}_ARENA_SIZE {arena["size"]} /* bytes */
#define {prefix}_ARENA_ALIGN {arena["align"]} /* bytes */

{buildfiles.aligned(prefix, arena["align"])}
/* The arena with its size and alignment; {prefix}_ARENA(variable) declares one. */
union {name}_arena {{
    {prefix}_ALIGNED uint64_t align;
    uint8_t bytes[{prefix}_ARENA_SIZE];
}};
#define {prefix}_ARENA(variable) union {name}_arena variable

#endif
"""


def _build_files(manifests: Sequence[glue.Manifest], name: str, sources: Sequence[str]) -> Mapping[str, str]:
    """The files for build systems. The flags are those that all of the bundles need."""
    flags = [flag for flag in glue.cflags(manifests[0]) if all(flag in glue.cflags(m) for m in manifests)]
    return buildfiles.build_files(name, sources, flags, "-fPIC" in target_of(manifests[0]).cflags)
