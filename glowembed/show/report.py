"""Formats results for people. In: results of the stages. Out: rich tables and lines, readable at 80 columns without
colour.

Nothing here prints; only the commands do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from glowembed.graph.clock import energy_text, time_text
from glowembed.graph.ir import Graph, Node
from glowembed.graph.notes import Note
from glowembed.graph.registry import all_kernels, kernel
from glowembed.graph.target import Board, Target, default_board, target_of, with_isa
from glowembed.lower.choose import Choice, Unpacking
from glowembed.options.table import DEFAULTS, Settings
from glowembed.pipeline import Bundle
from glowembed.quantize.precision import LEFT_IN_FLOAT, Precision
from glowembed.show import bundleview
from glowembed.show.tables import number, shape, size, table

if TYPE_CHECKING:  # what one command shows is not imported by the others
    from glowembed.image.build import Image
    from glowembed.judge.debugging import DebugRun, LayerReport, Loss
    from glowembed.judge.doctor import Checkup
    from glowembed.judge.farm import Row
    from glowembed.judge.tune import Evaluation, Lifted, Tuned
    from glowembed.judge.validation import Validation

Json = Mapping[str, Any]

GOOD, WARNING, BAD = "green", "yellow", "bold red"


def precision(graph: Graph, resolved: Precision) -> RenderableType:
    """The resolved table: how each node is computed, and the last rule that applied to it."""
    rows = [_precision_row(node, resolved.nodes[node.name]) for node in graph.nodes]
    parts: list[RenderableType] = [table("precision", ("node", "op", "computed in", "rule"), rows, left=4)]
    for name, fixed in resolved.values.items():
        what = f"range {fixed.range}" if fixed.range else f"scale {fixed.scale}, zero point {fixed.zero_point}"
        parts.append(Text(f"{name}: {what}, by {fixed.rule}"))
    return Group(*parts)


def _precision_row(node: Node, settings: Settings) -> tuple[str, ...]:
    given = settings.json()
    words = [str(given.pop("dtype"))]
    usual = {"percentile": Settings.percentile, **Settings(dtype=settings.dtype).json()}
    for key, value in given.items():
        if value != usual[key]:
            words.append(f"{key} {str(value).lower() if isinstance(value, bool) else value}")
    rules = [rule for rule in dict.fromkeys(settings.rules.values()) if rule != DEFAULTS]
    return node.name, node.op, ", ".join(words), ", ".join(rules)


def validation(result: Validation) -> RenderableType:
    """The whole result of a validation."""
    json = result.json
    parts: list[RenderableType] = [
        _verdict(json),
        *(Text(f"warning: {note} [{note.code}]", style=WARNING) for note in _of_level(result.notes, "warning")),
        table("Outputs against float", OUTPUT_HEADS, output_rows(json["outputs"])),
        *(
            [table("Accuracy against labels", ACCURACY_HEADS, accuracy_rows(json["accuracy"]))]
            if json["accuracy"]
            else []
        ),
        table("Costs", ("", "on the board"), cost_rows(json)),
        *([table("Serial line", ("", "measured"), line_rows(json))] if "line" in json else []),
        *([_layers(result)] if result.layers else []),
        *(Text(f"note: {note}", style="dim") for note in _of_level(result.notes, "note")),
    ]
    return Group(*parts)


def _of_level(notes: Iterable[Note], level: str) -> list[Note]:
    return [note for note in notes if note.level == level]


def _verdict(json: Json) -> Text:
    where = f"{json['model']} for {json['target']} on {json['board']}, {json['samples']} sample{'s' * (json['samples'] != 1)}: "
    if json["bit_exact"]:
        return Text.assemble(where, ("bit-exact", GOOD), " with the integer reference")
    first = json["first_difference"]
    parts: list[str | tuple[str, str]] = [where, ("NOT bit-exact", BAD)]
    if "sample" in first:
        place = f"layer {first['layer']!r}, tensor" if "layer" in first else "output"
        parts.append(
            f". First difference: sample {first['sample']}, {place} {first['output']!r}, index {first['index']}:"
            f" expected {first['expected']}, found {first['found']}"
        )
    if first.get("constants_in_flash_differ"):
        whose = "" if "sample" in first or "layer" not in first else f" of layer {first['layer']!r}"
        parts.append(
            f". In its flash {', '.join(first['constants_in_flash_differ'])}{whose} is not what the bundle has"
        )
    return Text.assemble(*parts)


OUTPUT_HEADS = ("output", "cosine", "RMSE", "max error", "SQNR", "same class")
ACCURACY_HEADS = ("metric", "float", "quantized")


def output_rows(outputs: Sequence[Json]) -> list[tuple[str, ...]]:
    """How far each output is from float."""
    return [
        (o["name"], f"{o['cosine']:.6f}", f"{o['rmse']:.4g}", f"{o['max_abs']:.4g}", f"{o['sqnr_db']:.1f} dB", _percent(o["top1_agreement"]))
        for o in outputs
    ]  # fmt: skip


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def accuracy_rows(accuracy: Json) -> list[tuple[str, ...]]:
    """The accuracy of the float model and of the bundle against the labels."""
    form = _percent if accuracy["metric"] == "top1" else lambda x: f"{x:.4g}"
    return [(accuracy["metric"], form(accuracy["float"]), form(accuracy["quantized"]))]


def cost_rows(json: Json) -> list[tuple[str, str]]:
    """Time and memory of one inference; the stack as measured by painting, and as computed from the compiler's figures."""
    memory = json["memory"]
    computed = memory.get("stack_computed")
    return [
        ("instructions per inference", number(json["instructions"])),
        *([("cycles, estimated", number(json["cycles_estimate"]))] if json["cycles_estimate"] is not None else []),
        *([("cycles, measured", number(json["cycles_measured"]))] if json["cycles_measured"] else []),
        *([("time", time_text(json["milliseconds"], json["clock_hz"]))] if json.get("milliseconds") else []),
        *([("energy, estimated", energy_text(json["microjoules"]))] if json.get("microjoules") else []),
        *([("microseconds", f"{json['latency_us']:,.1f}")] if json.get("latency_us") else []),
        ("multiply-accumulates", number(json["macs"])),
        ("arena (RAM)", size(memory["arena"])),
        ("  least if tensors are kept whole", size(memory["arena_liveness_bound"])),
        ("stack", size(memory["stack"])),
        *([("stack, computed worst case", size(computed))] if computed else []),
        ("variables", size(memory["data"] + memory["bss"])),
        ("weights (flash)", size(memory["weights"])),
        ("code", size(memory["code"])),
        ("other constants", size(memory["rodata"])),
    ]


def line_rows(json: Json) -> list[tuple[str, str]]:
    """The traffic on the serial line."""
    line = json["line"]
    rate = line["bytes_per_second"]
    return [
        ("bytes", number(line["bytes"])),
        ("of them tensors", _percent(1 - line["overhead"])),
        ("bytes per second", number(round(rate)) if rate else "-"),
        (f"share of {line['baud']} baud", _percent(line["capacity_share"])),
        ("requests", number(line["requests"])),
        ("sent again", number(line["retries"])),
        ("sessions", number(line["sessions"])),
        ("seconds", f"{line['seconds']:.2f}"),
    ]


def _layers(result: Validation) -> Table:
    """The layers; cycles measured on a board stand beside the estimate."""
    measured = any("cycles_measured" in layer for layer in result.json["layers"])
    rows = [
        (
            check.name,
            number(layer["macs"]),
            number(layer["instructions"]),
            number(layer["cycles_estimate"]),
            *([number(layer.get("cycles_measured"))] if measured else []),
            f"{100 * check.saturated:.1f} %",
            "yes" if check.difference is None else "NO",
        )
        for check, layer in zip(result.layers, result.json["layers"], strict=True)
    ]
    heads = ("layer", "MACs", "instructions", "cycles", *(["measured"] if measured else []), "saturated", "exact")
    return table("Layers", heads, rows)


def summary(results: Sequence[Json]) -> Table:
    """One column per validation, as `demo` and `try` show it; rows without any figure are left out."""
    rows: list[tuple[str, Callable[[Json], str]]] = [
        ("core", lambda r: r["target"]),
        ("bits as in the reference", lambda r: "all" if r["bit_exact"] else "NOT ALL"),
        ("samples", lambda r: number(r["samples"])),
        ("accuracy, float", lambda r: _accuracy(r, 1)),
        ("accuracy, quantized", lambda r: _accuracy(r, 2)),
        ("same class as float", lambda r: _worst(r, "top1_agreement", _percent)),
        ("SQNR against float", lambda r: _worst(r, "sqnr_db", "{:.1f} dB".format)),
        ("instructions per inference", lambda r: number(r["instructions"])),
        ("cycles, estimated", lambda r: number(r["cycles_estimate"])),
        ("time, estimated", lambda r: time_text(r["milliseconds"], r["clock_hz"])),
        ("arena (RAM)", lambda r: size(r["memory"]["arena"])),
        ("stack (RAM)", lambda r: size(r["memory"]["stack"] or None)),
        ("weights (flash)", lambda r: size(r["memory"]["weights"])),
        ("code (flash)", lambda r: size(r["memory"]["code"])),
    ]
    boards = [f"{r['board']}{', emulated' if r['transport'] == 'qemu' else ''}" for r in results]
    cells = [(label, *(cell(r) for r in results)) for label, cell in rows]
    return table("", ("", *boards), [row for row in cells if any(cell != "-" for cell in row[1:])])


def _accuracy(json: Json, column: int) -> str:
    return "-" if json["accuracy"] is None else accuracy_rows(json["accuracy"])[0][column]


def _worst(json: Json, figure: str, form: Callable[[float], str]) -> str:
    """The least figure of all outputs."""
    known = [output[figure] for output in json["outputs"] if output[figure] is not None]
    return form(min(known)) if known else "-"


def combined(manifest: Json, folder: str) -> RenderableType:
    """Bundles that share an arena, and the arena that each needs."""
    rows = [(f"arena of {b['name']}", size(b["arena"])) for b in manifest["bundles"]]
    rows += [("shared arena (RAM)", size(manifest["arena"]["size"]))]
    rows += [("weights", size(sum(b["weights_bytes"] for b in manifest["bundles"])))]
    head = Text.assemble(
        ("combined ", GOOD), f"{len(manifest['bundles'])} bundles for {manifest['target']} into {folder}"
    )
    return Group(head, table("", (manifest["name"], ""), rows))


def exported(found: Json, folder: str, build: str) -> RenderableType:
    """The export of a bundle, and how it is built."""
    rows = [("files", number(len(found["files"]))), ("self-test", f"FNV-1a {found['selftest']['hash']}")]
    head = Text.assemble(("exported ", GOOD), f"{found['name']} {found['version']} as {found['kind']} into {folder}")
    build = build.replace("NAME", found["name"]).replace("`", "")
    return Group(head, table("", (found["name"], ""), rows), Text(f"build it in that folder: {build}"))


WEIGHTS_ARE_IN = {"flash": "flash", "ram": "flash and RAM", "file": "file"}


def compiled(manifest: Json, folder: str, seconds: Mapping[str, float]) -> RenderableType:
    """The result of a compilation: files, sizes, and the time of each stage."""
    arena = manifest["arena"]
    rows = [
        ("arena (RAM)", size(arena["size"])),
        *[(f"  and in {ram['name']}", size(ram["size"])) for ram in manifest["rams"]],
        ("  least if tensors are kept whole", size(arena["liveness_bound"])),
        *_price(manifest["schedule"]),
        (f"weights ({WEIGHTS_ARE_IN[manifest['weights']['place']]})", size(manifest["weights_bytes"])),
        ("layers", number(len(manifest["layers"]))),
        ("multiply-accumulates", number(manifest["macs"])),
    ]
    rows += _saved(manifest.get("simplified"))
    rows += _precisions(manifest.get("precision", []))
    head = Text.assemble(("compiled ", GOOD), f"{manifest['model']['file']} for {manifest['target']} into {folder}")
    return Group(head, table("", (manifest["name"], ""), rows), tensors(manifest), timing(seconds))


def _price(schedule: Json) -> list[tuple[str, str]]:
    """The cycles that are paid for less RAM and flash than the fastest kernels need, each called once."""
    extra, fastest = schedule["extra_cycles_estimate"], schedule["fastest_cycles_estimate"]
    return [("  its price in cycles, estimated", f"{100 * extra / fastest:+.1f} %")] if extra > 0 and fastest else []


def kernel_option(bundle: Bundle, option: str) -> RenderableType:
    """How many layers an option such as --winograd has changed, and its cost; or why it has changed none."""
    nodes = [n for n in bundle.graph.nodes if n.kernel and kernel(n.kernel).option == option]
    if not nodes:
        offered = [c for c in bundle.choices if kernel(c.kernel).option == option]
        target = bundle.manifest["target"]
        isa = bundle.manifest["options"].get("isa")
        if not any(
            k.option == option and k.isa in with_isa(target_of(bundle.manifest), isa).isa for k in all_kernels()
        ):
            return Text(
                f"--{option} changes nothing: {target} has no such kernels{f' with --isa {isa}' if isa else ''}"
            )
        reasons = Counter(str(c.reason) for c in offered) or {"there is no convolution of int8": 0}
        why = "; ".join(f"{count} x {reason}" if count else reason for reason, count in reasons.items())
        return Text(f"--{option} changes nothing, as it makes no layer faster: {why}")
    plain = [{name: c.materialize() for name, c in n.constants.items()} for n in nodes]
    packed = [kernel(n.kernel or "").packed(c, n.params) for n, c in zip(nodes, plain, strict=True)]
    more = sum(a.nbytes for c in packed for a in c.values()) - sum(a.nbytes for c in plain for a in c.values())
    return Text(f"--{option}: {len(nodes)} layers are faster, their weights take {size(more)} more flash")


def considered(bundle: Bundle) -> RenderableType:
    """For each layer the kernels of its core: cycles of one call, bytes of flash (constants + code) and scratch, and
    why a kernel was not taken.
    """
    final = {node.name: node.kernel for node in bundle.graph.nodes}
    layers: dict[str, list[Choice]] = {}
    for choice in bundle.choices:
        layers.setdefault(choice.node, []).append(choice)
    text = Text("kernels considered: estimated cycles; flash, constants + code; scratch\n", "bold")
    for node in [*layers, *(n for n, symbol in final.items() if symbol is not None and n not in layers)]:
        text.append(f"{node}\n")
        for choice in layers.get(node, ()):
            text.append_text(_considered(choice, final.get(node)))
        if node not in layers:
            text.append(f"  {str(final[node]).removeprefix('ge_'):<24}  made by the planner, to save RAM\n")
    return text


def _considered(choice: Choice, final: str | None) -> Text:
    name = choice.kernel.removeprefix("ge_")
    if not choice.legal:
        return Text(f"  {name:<24}  cannot: {choice.reason}\n")
    flash = f"{number(choice.constants)} + {number(choice.code + choice.shared)}"
    taken, verdict = choice.kernel == final, choice.reason or "taken"
    if taken and choice.reason is not None:
        verdict = "taken: less RAM in this plan"
    elif not taken and choice.reason is None:
        verdict = "more RAM in this plan"
    if taken and choice.unpacking is not None:
        verdict += f"; {_four_bits(choice.unpacking)}"
    line = f"  {name:<24}{number(round(choice.cycles)):>12}  {flash:>15}  {number(choice.scratch):>7}  {verdict}\n"
    return Text(line, GOOD if taken else "")


def _four_bits(price: Unpacking) -> str:
    saves = f"{'save' if price.saved >= 0 else 'add'} {number(abs(price.saved))} bytes of flash"
    return f"four bits {saves} and cost {number(round(price.cycles))} cycles, {number(price.scratch)} bytes of scratch"


def _precisions(table: Sequence[Json]) -> list[tuple[str, str]]:
    """How many nodes compute in each dtype, unless all are int8; `precision` in bundle.json lists each node."""
    counts = Counter(str(entry["dtype"]) for entry in table)
    rows = [] if set(counts) <= {"int8"} else [(f"nodes in {dtype}", number(counts[dtype])) for dtype in sorted(counts)]
    left = [str(entry["node"]) for entry in table if entry["reason"] == LEFT_IN_FLOAT]
    shown = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
    return [*rows, ("  left in float by the model", shown)] if left else rows


def _saved(simplified: Json | None) -> list[tuple[str, str]]:
    """The costs that were saved by removing constant and dead channels. Kernels may pack the remaining weights with
    some padding.
    """
    if not simplified or not simplified["channels"]:
        return []

    def less(what: str, unit: str = "") -> str:
        before, after = simplified[f"{what}_before"], simplified[f"{what}_after"]
        return f"{number(before)}{unit} -> {number(after)}{unit} (-{100 * (before - after) / before:.1f} %)"

    return [
        ("channels removed", f"{number(simplified['channels'])}, constant or unread"),
        ("  multiply-accumulates", less("macs")),
        ("  weights and biases", less("weights", " B")),
    ]


def tensors(manifest: Json) -> Table:
    """The inputs and outputs of a bundle, as the firmware must know them."""
    rows = [
        (kind, t["name"], shape(t["shape"]), t["dtype"], "-" if t["scale"] is None else f"{t['scale']:.6g}", _zero(t))
        for kind, entries in (("in", manifest["inputs"]), ("out", manifest["outputs"]))
        for t in entries
    ]
    return table("", ("", "tensor", "shape", "dtype", "scale", "zero point"), rows, left=4)


def _zero(tensor: Json) -> str:
    return "-" if tensor["zero_point"] is None else str(tensor["zero_point"])


def timing(seconds: Mapping[str, float]) -> Text:
    """The stages with their seconds in one line."""
    stages = ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
    return Text(f"{sum(seconds.values()):.2f} s: {stages}", style="dim")


def built(image: Image) -> RenderableType:
    """The program and what it needs of each memory of the board."""
    rows = [
        ("code", size(image.code)),
        ("weights", size(image.weights)),
        ("other constants", size(image.rodata)),
        ("variables", size(image.data + image.bss)),
        ("stack, at most", size(image.stack)),
        *((f"  {name}", size(frame)) for name, frame in (image.deepest.path if image.deepest is not None else ())),
    ]
    used = [(m.name, m.kind, size(count), size(m.size), f"{100 * count / m.size:.1f} %") for m, count in image.used]
    head = Text.assemble(("built ", GOOD), str(image.elf))
    memories = [table("Whole firmware", ("memory", "kind", "used", "of", ""), used, left=2)] if used else []
    return Group(head, table("", ("the bundle alone", ""), rows), *memories)


def targets(entries: Iterable[Target]) -> Table:
    rows = [(t.name, t.description, " ".join(t.isa) or "C", default_board(t.name).name) for t in entries]
    return table("", ("target", "", "kernels", "validated on"), rows, left=4)


def farm(rows: Sequence[Row]) -> RenderableType:
    """One line per board, and below them why some did not run."""
    cells = [
        (
            row.name,
            row.board,
            "yes" if row.good else "NO" if row.result else "did not run",
            number(row.result["samples"] if row.result else None),
            _percent(row.result["accuracy"]["quantized"]) if row.result and row.result["accuracy"] else "-",
            number(row.result["cycles_measured"] if row.result else None),
            number(row.result["instructions"] if row.result else None),
            f"{row.seconds:.1f} s",
        )
        for row in rows
    ]
    heads = ("name", "board", "exact", "samples", "accuracy", "cycles", "instructions", "time")
    errors = [Text(f"{row.name}: {row.error}", style=BAD) for row in rows if row.error is not None]
    return Group(table("", heads, cells, left=2), *errors)


def ports(rows: Iterable[Sequence[str]]) -> Table:
    """The serial ports: name, description, and what answers."""
    return table("", ("port", "", "what answers"), rows, left=3)


def boards(entries: Iterable[Board]) -> Table:
    rows = [
        (b.name, b.target, b.description, *(size(sum(m.size for m in b.memories if (m.kind == "flash") == k) or None) for k in (False, True)))
        for b in entries
    ]  # fmt: skip
    return table("", ("board", "target", "", "RAM", "flash"), rows, left=3)


def checkup(found: Checkup) -> RenderableType:
    """What is here and what is missing, and the lines that install the rest."""
    rows = [
        (f.state, f.name, f.wanted_for, "" if f.state == "here" else " ".join(f.packages) or f.hint)
        for f in found.gravest_first
    ]
    lines = [Text("\nnothing is missing", style=GOOD) if found.complete else Text("\nsomething is missing", style=BAD)]
    if found.install():
        lines.append(Text(f"to install it:  {found.install()}"))
    elif found.install(optional=True):
        lines.append(Text(f"to install the optional parts too:  {found.install(optional=True)}"))
    return Group(table("", ("", "what", "needed for", "package, or what to do"), rows, left=4), *lines)


def losses(run: DebugRun) -> RenderableType:
    """One row per layer, and the layers that cost most."""
    columns = ["layer", "op", "bits", "saturated", *["SQNR dB", "steps"] * 2]
    rows = table("Layers: error cumulated, then isolated", columns, map(_losses, run.layers), left=3)
    names = ", ".join(layer.name for layer in run.costliest())
    return Group(rows, Text(f"cost most accuracy by themselves: {names}"))


def _losses(layer: LayerReport) -> list[str]:
    bits = {None: "-", False: "equal", True: "DIFFER"}[layer.differs]
    return [layer.name, layer.op, bits, f"{layer.saturated:.2%}", *_loss(layer.cumulated), *_loss(layer.isolated)]


def _loss(loss: Loss | None) -> list[str]:
    return ["-"] * 2 if loss is None else [f"{loss.sqnr_db:.1f}", f"{loss.max_steps:.1f}"]


def quantization(bundle: Bundle) -> RenderableType:
    """For each node, the types of its inputs and outputs, the params of its arithmetic, and its constants."""
    parts: list[RenderableType] = []
    for view in bundleview.views(bundle):
        parts.append(Text.assemble((view.name, "bold"), f"  {view.kernel or view.op}"))
        if view.origins not in ((), (view.name,)):
            parts.append(Text(f"  from {', '.join(view.origins)}"))
        parts += [Text(f"  in   {text}") for text in view.inputs]
        parts.append(Text(f"  out  {view.output}"))
        if view.params:
            parts.append(Text("  " + " ".join(f"{name}={value}" for name, value in view.params.items())))
        parts += [Text(f"  {name} {bundleview.array_text(array)}") for name, array in view.named().items()]
    return Group(*parts)


def tuned(result: Tuned) -> RenderableType:
    """Accuracy against cost of everything that was tried, the answer last, and the nodes that it lifts."""
    ends = [lifted for lifted in dict.fromkeys(((), result.lifted)) if lifted is not None]
    rows = [_tried(lifted, result.tried[lifted]) for lifted in ends]
    columns = ("nodes lifted", "score", "noise", "arena", "flash", "cycles")
    found = table(f"float scores {result.float_score:.4f}, the goal is {result.goal:.4f}", columns, rows)
    if result.lifted is None:
        return Group(found, Text(f"the goal was not reached by any of {len(result.tried)} configurations", style=BAD))
    names = [Text(f"  {change}  {name or 'all nodes'}") for name, change in result.lifted]
    before = f", {result.remembered} of them before the interruption" if result.remembered else ""
    tried = f"{len(result.tried)} configurations were tried{before}"
    head = f"lifted: {_nodes(result.lifted)} of {result.nodes} nodes; {tried}"
    return Group(found, Text(head, style=GOOD), *names)


def _nodes(lifted: Lifted) -> int:
    return sum(bool(name) for name, _ in lifted)


def _tried(lifted: Lifted, e: Evaluation) -> list[str]:
    cost = [size(e.arena), size(e.flash), number(round(e.cycles))]
    return [str(_nodes(lifted)), f"{e.score:.4f}", f"{e.noise:.4f}", *cost]
