"""Writes an export: the C files of a bundle, a self-test, and the files of a build system or of a language around them.

In: a bundle, the name of a kind, a folder. Out: the folder, complete or unchanged. A kind is a folder in kinds/ with a kind.toml and
templates; a kind is added by adding its folder. In paths of templates, `__name__` stands for the name of the bundle.

kind.toml has these keys:
    what      what the export is, for the list of kinds
    build     how it is built
    tested    how the project's tests build it, for docs/exports.md
    code      the folder for the C files and the headers that only they include
    public    the folder for the headers that a program includes; by default that of the code
    runs_here whether it is built and run on the user's computer, so that the bundle must be for it
    plain     whether its own code needs inputs, outputs and weights where they are by default
    imported  whether a Python program imports it by the name of the bundle
    longest_name  the most characters that its form allows in the name of the bundle; 0 if there is no limit
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from glowembed.emit.weights import FNV_OFFSET, FNV_PRIME
from glowembed.errors import UsageError, unknown_name
from glowembed.export import selftest
from glowembed.files.documents import read_toml
from glowembed.files.output import check_out_dir, write_folder
from glowembed.files.source import read_bytes
from glowembed.graph.cnames import comment, identifier
from glowembed.graph.target import Target, target_of, with_isa
from glowembed.image import glue
from glowembed.nest.dtypes import BOOL, stored_ctype
from glowembed.pipeline import Bundle
from glowembed.records import dataclass
from glowembed.version import VERSION

KINDS = Path(__file__).parent / "kinds"
MARKER = "export.json"
PACKAGE_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")

TAKEN = frozenset({*keyword.kwlist, *sys.stdlib_module_names, "numpy"})
"""Names that no Python package of a bundle can have: keywords, and modules that would be found instead or are needed."""


@dataclass(frozen=True)
class Kind:
    """A kind of export, as its kind.toml describes it."""

    name: str
    what: str
    build: str
    tested: str
    code: str
    public: str = ""
    runs_here: bool = False
    plain: bool = False
    imported: bool = False
    longest_name: int = 0

    @property
    def templates(self) -> list[Path]:
        """The templates of its folder, in the order of their paths."""
        return sorted(path for path in (KINDS / self.name).rglob("*.j2"))


@cache
def kinds() -> Mapping[str, Kind]:
    """All kinds by name."""
    found = sorted(path.parent for path in KINDS.glob("*/kind.toml"))
    return {folder.name: Kind(folder.name, **read_toml(folder / "kind.toml")) for folder in found}


def export(bundle: Bundle, kind: str, out_dir: Path, version: str = "1.0.0") -> Mapping[str, Any]:
    """Write the export of this kind, and return what export.json says. version: that of the package.

    Raises UsageError for an unknown kind, a version that is not three numbers, a folder that cannot be replaced, and a bundle that the
    kind cannot take.
    """
    if kind not in kinds():
        raise unknown_name("kind of export", kind, kinds())
    if not PACKAGE_VERSION.fullmatch(version):
        raise UsageError(f"--version {version}: expected three numbers with dots between, such as 1.0.0")
    chosen = kinds()[kind]
    check_out_dir(out_dir, "export", MARKER)
    _refuse(bundle, chosen)
    files = _files(bundle, chosen, version)
    manifest = {
        "schema": 1,
        "kind": kind,
        "name": bundle.manifest["name"],
        "version": version,
        "generator": f"glowembed {VERSION}",
        "target": bundle.manifest["target"],
        "bundle": bundle.manifest["hash"],
        "selftest": {"runs": selftest.RUNS, "hash": f"{selftest.expected(bundle):016x}"},
        "files": sorted(files),
    }
    content = (json.dumps(manifest, indent=1) + "\n").encode("ascii")
    write_folder(out_dir, dict(sorted({**files, MARKER: content}.items())))
    return manifest


def _refuse(bundle: Bundle, kind: Kind) -> None:
    """Raise UsageError for a bundle that this kind cannot take."""
    manifest = bundle.manifest
    name, target = manifest["name"], target_of(manifest)
    if kind.imported and name in TAKEN:
        raise UsageError(
            f"an export of kind {kind.name} cannot have the name {name}, which is taken in Python: compile the model with another --name"
        )
    if kind.longest_name and len(name) > kind.longest_name:
        raise UsageError(
            f"an export of kind {kind.name} takes names of at most {kind.longest_name} characters, and {name} has {len(name)}: compile the "
            "model with another --name"
        )
    if kind.runs_here and target.compiler != "cc":
        raise UsageError(
            f"{bundle.path} was compiled for {target.name}, and an export of kind {kind.name} runs on this computer: compile the model "
            "with --target x86-64"
        )
    if kind.plain and glue.has_weights_file(manifest):
        raise UsageError(
            f"an export of kind {kind.name} needs the weights of {name} in its program: compile it without --weights file:NAME"
        )
    outside = [t["name"] for t in _tensors(manifest) if t.get("handed", "arena") not in ("arena", "state")]
    if kind.plain and (outside or manifest.get("rams")):
        found = f"{outside[0]!r} is outside the arena" if outside else f"it uses the RAM {manifest['rams'][0]['name']}"
        raise UsageError(
            f"an export of kind {kind.name} needs all tensors of {name} in its arena, but {found}: compile it without --io, --input and "
            "--memory"
        )


def _files(bundle: Bundle, kind: Kind, version: str) -> dict[str, bytes]:
    manifest = bundle.manifest
    name = manifest["name"]
    context = _context(bundle, kind, version)
    public = {f"{name}.h", f"{name}_glow.h"}
    files = {}
    for file in (*manifest["sources"], *manifest["headers"]):
        if not glue.PLAIN_FILE.fullmatch(file) or not (bundle.path / file).is_file():
            raise UsageError(
                f"{bundle.path} names {file!r:.100}, which is not a file of the bundle; compile the model again"
            )
        files[_joined(context["public"] if file in public else kind.code, file)] = read_bytes(bundle.path / file)
    for file, place in ((f"{name}_selftest.h", context["public"]), (f"{name}_selftest.c", kind.code)):
        files[_joined(place, file)] = _rendered(f"common/selftest.{file[-1]}.j2", context)
    weights = glue.weights_c(manifest, bundle.path, f"{name}_weights_file")
    if weights is not None:
        file = manifest["weights"]["file"]
        files |= {
            _joined(kind.code, f"{name}_weights_file.c"): weights.encode("ascii"),
            f"weights/{file}": read_bytes(bundle.path / file),
        }
    for path in kind.templates:
        relative = path.relative_to(KINDS / kind.name).as_posix().removesuffix(".j2").replace("__name__", name)
        files[relative] = _rendered(path.relative_to(KINDS).as_posix(), context)
    return files


def _joined(folder: str, file: str) -> str:
    return f"{folder}/{file}" if folder else file


def _context(bundle: Bundle, kind: Kind, version: str) -> dict[str, Any]:
    """What the templates print."""
    manifest, target = bundle.manifest, target_of(bundle.manifest)
    name, isa = manifest["name"], with_isa(target, manifest["options"].get("isa")).isa
    inputs, outputs = ([_tensor(t, direction) for t in manifest[f"{direction}s"]] for direction in ("input", "output"))
    free = [t for t in inputs if t["handed"] != "state"]
    for index, tensor in enumerate(free):
        tensor["seed"] = selftest.seed_of(index)
    rams = [identifier(ram["name"]) for ram in manifest.get("rams", [])]
    from_file = glue.has_weights_file(manifest)
    code = [*(file for file in manifest["sources"] if file.endswith(".c")), f"{name}_selftest.c"]
    code += [f"{name}_weights_file.c"] if from_file else []
    integers = not any(str(entry.get("dtype")).startswith("float") for entry in manifest["precision"])
    return {
        "name": name,
        "NAME": name.upper(),
        "version": version,
        "major": version.split(".")[0],
        "generator": f"glowembed {VERSION}",
        "model": comment(str(manifest.get("model", {}).get("file", "a model"))),
        "hash": manifest["hash"],
        "inputs": free,
        "outputs": outputs,
        "rams": rams,
        "from_file": from_file,
        "places": from_file or bool(rams) or any(t["handed"] in ("caller", "rows") for t in (*inputs, *outputs)),
        "state": bool(manifest.get("state")),
        "arena": manifest["arena"],
        "fills": list({t["fill"].name: t["fill"] for t in free}.values()),
        "runs": selftest.RUNS,
        "expected": f"{selftest.expected(bundle):016X}",
        "fnv": {"offset": f"{FNV_OFFSET:X}", "prime": f"{FNV_PRIME:X}"},
        "code": kind.code,
        "public": kind.public or kind.code,
        "sources": [_joined(kind.code, file) for file in code],
        "target": comment(target.name),
        "here": target.compiler == "cc",
        "compiler": target.compiler,
        "machine": _machine(target),
        "core": target.cpu,
        "dcores": _dcores(target.cpu, isa, integers),
        "integers": integers,
        "vectors": "mve" in isa,
        "flags": glue.cflags(manifest),
    }  # fmt: skip


def _machine(target: Target) -> Sequence[str]:
    """The flags that name the core."""
    return [flag for flag in target.cflags if flag.startswith("-m")]


def _dcores(cpu: str, isa: Sequence[str], integers: bool) -> list[dict[str, str]]:
    """The cores that a component of a CMSIS-Pack accepts, as attributes of Open-CMSIS-Pack's `accept`; none if such packs do not know the core.

    Ddsp and Dmve are given where the core may lack what the kernels use: the DSP extension of Armv8-M, and Helium, whose float part only
    networks with float layers need.
    """
    number = cpu.removeprefix("cortex-m")
    if number == cpu:
        return []
    core = {"Dcore": f"Cortex-M{number.upper().replace('PLUS', '+')}"}
    if "mve" in isa:
        return [core | {"Dmve": extension} for extension in (("MVE", "FP_MVE") if integers else ("FP_MVE",))]
    if "dsp" in isa and cpu not in ("cortex-m4", "cortex-m7"):
        core["Ddsp"] = "DSP"
    return [core]


def _tensors(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*manifest["inputs"], *manifest["outputs"]]


def _tensor(tensor: Mapping[str, Any], direction: str) -> dict[str, Any]:
    """A tensor of the manifest for the templates. `symbol` begins its macros, `member` is its place outside the arena."""
    handed = tensor.get("handed", "arena")
    quantized = tensor.get("scale") is not None
    return {
        **tensor,
        "symbol": f"{direction.upper()}_{tensor['id']}",
        "member": f"{direction}_{tensor['id'].lower()}",
        "lower": tensor["id"].lower(),
        "handed": handed,
        "ctype": stored_ctype(tensor["dtype"]),
        "array_type": _array_type(tensor["dtype"]),
        "rust": _rust_type(tensor["dtype"]),
        "quantized": quantized,
        "fill": selftest.fill_of(tensor["dtype"], quantized),
    }


def _array_type(dtype: str) -> str:
    """The name of a numpy type without extensions, for elements as they are stored."""
    return (
        "bool"
        if dtype == BOOL
        else {"float": "float32", "double": "float64"}.get(c := stored_ctype(dtype), c.removesuffix("_t"))
    )


def _rust_type(dtype: str) -> str:
    ctype = stored_ctype(dtype)
    return {"float": "f32", "double": "f64"}.get(
        ctype, ctype.removesuffix("_t").replace("uint", "u").replace("int", "i")
    )


def _rendered(template: str, context: Mapping[str, Any]) -> bytes:
    return _environment().get_template(template).render(context).encode("ascii")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([KINDS, KINDS.parent]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  names are identifiers, and other text is quoted by the filters
    )
    environment.filters["python"] = ascii
    return environment
