"""Reads the layer-wise precision configuration and turns its rules into settings per node.

In: a precision.yaml (`load`) and a canonical graph. Out: a `Precision`: the settings of every node, and of the values
that a rule names (`resolve`). Every mistake is a UsageError that names the rule, the node and the setting. It decides
no type and reads no other file.

    defaults: {dtype: int8, calibration: kl}
    rules:
      - {position: first, dtype: float32}
      - {op: Conv, name: "head/*", dtype: int16, weights: int16}
      - {value: logits, range: [-8, 8]}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from glowembed.errors import UsageError, unknown_name
from glowembed.files import documents
from glowembed.graph.ir import Graph, Node, Value
from glowembed.graph.registry import dtypes_of, ops
from glowembed.ops.features import SOUND
from glowembed.options.option import Option, Setting
from glowembed.options.table import (
    DEFAULTS,
    DTYPES,
    NODE_SETTINGS,
    OPTIONS,
    CompileOptions,
    Config,
    Rule,
    Settings,
)
from glowembed.options.words import FOUR_BITS
from glowembed.records import dataclass

POSITIONS = ("first", "last")

LEFT_IN_FLOAT = "the model leaves it in float"
"""The rule named in Settings.rules if the model decides a setting, and not a rule of a file."""

NODE_MATCHERS = ("name", "op", "position")
VALUE_SETTINGS = ("scale", "zero_point", "range")


@dataclass(frozen=True)
class ValueSettings:
    """The fixed properties of one value: a range, or scale and zero point; vectors for weights, one element per output
    channel.
    """

    scale: tuple[float, ...] | None = None
    zero_point: tuple[int, ...] | None = None
    range: tuple[float, float] | None = None
    rule: str = ""


@dataclass(frozen=True)
class Precision:
    """Settings by node name, and fixed properties by value name. file: the file with the rules, for messages."""

    nodes: Mapping[str, Settings]
    values: Mapping[str, ValueSettings] = field(default_factory=dict)
    file: str = ""


def config_of(options: CompileOptions) -> Config:
    """The configuration that the options ask for. The options are its defaults, and their file overrides them."""
    given = options.precision or Config()
    given = given if isinstance(given, Config) else load(Path(given))
    listed = ((o.setting, o.of(options)) for o in OPTIONS.values())
    asked = {setting.name: value for setting, value in listed if setting is not None and value is not None}
    if options.exact:
        asked["dtype"] = "float32"
    return replace(given, defaults={**asked, **given.defaults})


def free_range(settings: Settings) -> bool:
    """Whether no setting asks for a range of weights; those of four bits then take the range with the least error."""
    asked = settings.rules.get("weights_calibration", DEFAULTS) != DEFAULTS
    return not asked and settings.weights_calibration == Settings().weights_calibration


def asks_four_bits(config: Config) -> bool:
    """Whether weights of some nodes may have four bits."""
    return any(
        settings.get("weights") in FOUR_BITS for settings in (config.defaults, *(r.settings for r in config.rules))
    )


def load(path: Path) -> Config:
    """Load a configuration from a file. Raises UsageError, which names the file, the rule with its line, and the
    setting.
    """
    text = documents.read_text(path)
    document = documents.parse_yaml(text, str(path))
    lines = _lines(yaml.compose(text, Loader=yaml.SafeLoader))
    with named(str(path)):
        return replace(parse(document, lines), file=str(path))


def _lines(root: yaml.Node | None) -> list[int]:
    """For each rule, the line of the file on which it begins, counted from 1."""
    entries = root.value if isinstance(root, yaml.MappingNode) else ()
    lists = [value for key, value in entries if key.value == "rules" and isinstance(value, yaml.SequenceNode)]
    return [rule.start_mark.line + 1 for rule in lists[-1].value] if lists else []


@contextmanager
def named(file: str) -> Iterator[None]:
    """A context in which the messages of UsageErrors begin with the name of the file, if there is one."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{file}: {error}" if file else str(error)) from error


def parse(document: Any, lines: Sequence[int] = ()) -> Config:
    """The configuration in a parsed YAML document. lines: for each rule, the line of the file on which it begins."""
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise UsageError("expected 'defaults:' and 'rules:'; `glowembed precision MODEL --template` writes an example")
    _known(document, ("defaults", "rules"), "key")
    defaults, rules = document.get("defaults") or {}, document.get("rules") or []
    if not isinstance(defaults, dict):
        raise UsageError("defaults: expected settings such as 'dtype: int8'")
    if not isinstance(rules, list):
        raise UsageError("rules: expected a list; each rule begins with a dash")
    labels = [f"rule {index}" + (f", line {lines[index - 1]}" if lines else "") for index in range(1, len(rules) + 1)]
    return Config(_settings(defaults, DEFAULTS), tuple(map(_rule, rules, labels)))


def _known(entry: Mapping[Any, Any], known: Sequence[str], kind: str) -> None:
    for key in entry:
        if key not in known:
            raise unknown_name(kind, str(key), known)


def _rule(entry: Any, label: str) -> Rule:
    """One rule. `label` says which rule it is; its matchers are appended for messages."""
    if not isinstance(entry, dict) or not entry:
        raise UsageError(f"{label}: expected matchers ({', '.join((*NODE_MATCHERS, 'value'))}) and settings")
    matchers = {key: entry[key] for key in (*NODE_MATCHERS, "value") if key in entry}
    label = f"{label} ({', '.join(f'{key}: {_words(value)}' for key, value in matchers.items())})"
    if not matchers:
        raise UsageError(f"{label}: does not say what it matches; give name, op, position or value")
    if "value" in matchers and len(matchers) > 1:
        raise UsageError(f"{label}: matches nodes and values; write two rules")
    rest = {key: value for key, value in entry.items() if key not in matchers}
    settings = _value_settings(rest, label) if "value" in matchers else _settings(rest, label)
    if not settings:
        raise UsageError(f"{label}: sets nothing")
    position = matchers.get("position")
    if position is not None and position not in POSITIONS:
        raise UsageError(f"{label}: {unknown_name('position', str(position), POSITIONS)}")
    kinds = _globs(matchers, "op", label)
    for kind in kinds:
        if kind not in ops():
            raise UsageError(f"{label}: {_unknown_op(kind)}")
    names, values = _globs(matchers, "name", label), _globs(matchers, "value", label)
    return Rule(label, names, kinds, position, values, settings)


def _unknown_op(kind: str) -> str:
    """The error for an unknown op; for an ONNX operator it names the op that computes it."""
    known = next((name for name, op in ops().items() if kind in op.onnx), None)
    return f"{kind} is computed as {known}: write 'op: {known}'" if known else str(unknown_name("op", kind, ops()))


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _globs(matchers: Mapping[str, Any], key: str, label: str) -> tuple[str, ...]:
    if key not in matchers:
        return ()
    globs = matchers[key] if isinstance(matchers[key], list) else [matchers[key]]
    if not globs or not all(isinstance(g, str | int) and not isinstance(g, bool) and str(g) for g in globs):
        raise UsageError(f"{label}: {key} must be a name, or a list of names")
    return tuple(map(str, globs))


def _settings(entry: Mapping[Any, Any], label: str) -> dict[str, Any]:
    for key in entry:
        if key in VALUE_SETTINGS:
            raise UsageError(f"{label}: {key} applies to a value; give 'value: NAME' instead of name, op or position")
        if key not in NODE_SETTINGS:
            raise UsageError(f"{label}: {unknown_name('setting', str(key), NODE_SETTINGS)}")
    return {key: _checked(NODE_SETTINGS[key].words.setting, value, f"{label}: {key}") for key, value in entry.items()}


def _checked(check: Callable[[Any], Any], value: Any, where: str) -> Any:
    try:
        return check(value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _value_settings(entry: Mapping[Any, Any], label: str) -> dict[str, Any]:
    for key in entry:
        if key in NODE_SETTINGS:
            raise UsageError(f"{label}: {key} applies to a node; give name, op or position instead of value")
        if key not in VALUE_SETTINGS:
            raise UsageError(f"{label}: {unknown_name('setting', str(key), VALUE_SETTINGS)}")
    if "range" in entry and len(entry) > 1:
        raise UsageError(f"{label}: range and scale exclude each other")
    if "zero_point" in entry and "scale" not in entry:
        raise UsageError(f"{label}: zero_point without scale")
    if "range" in entry:
        return {"range": _range(entry["range"], label)}
    if "scale" not in entry:
        return {}
    scales = tuple(float(s) for s in _numbers(entry["scale"], f"{label}: scale"))
    if not all(math.isfinite(s) and s > 0 for s in scales):
        raise UsageError(f"{label}: scale must be above 0 and finite, found {_words(entry['scale'])}")
    zeros = _numbers(entry.get("zero_point", 0), f"{label}: zero_point")
    if not all(isinstance(z, int) for z in zeros):
        raise UsageError(f"{label}: zero_point must be whole numbers, found {_words(entry['zero_point'])}")
    if len(zeros) not in (1, len(scales)):
        raise UsageError(f"{label}: {len(scales)} scales and {len(zeros)} zero points")
    return {"scale": scales, "zero_point": tuple(int(z) for z in zeros) * (len(scales) if len(zeros) == 1 else 1)}


def _numbers(value: Any, where: str) -> list[int | float]:
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
        raise UsageError(f"{where} must be a number, or a list of one per channel, found {value!r}")
    return numbers


def _range(value: Any, label: str) -> tuple[float, float]:
    numbers = _numbers(value, f"{label}: range")
    if len(numbers) != 2 or not all(math.isfinite(x) for x in numbers) or numbers[0] > numbers[1]:
        raise UsageError(f"{label}: range must be [lowest, highest], both finite, found {value!r}")
    return float(numbers[0]), float(numbers[1])


def resolve(graph: Graph, config: Config | None = None) -> Precision:
    """The settings of every node of the canonical graph; later rules win.

    Raises UsageError for a rule that matches nothing and for settings that exclude each other or that an op cannot do.
    """
    config = config or Config()
    with named(config.file):
        return replace(_resolved(graph, config), file=config.file)


def _resolved(graph: Graph, config: Config) -> Precision:
    first, last = _ends(graph)
    rules = {DEFAULTS: config.defaults}
    own = _dtype_of_model(graph)
    settings = {node.name: _with_defaults(graph, node, config.defaults, own) for node in graph.nodes}
    values: dict[str, ValueSettings] = {}
    matches: list[tuple[Rule, list[Node]]] = []
    for rule in config.rules:
        rules[rule.label] = rule.settings
        if rule.values:
            values |= _matched_values(graph, rule)
            continue
        matched = [node for node in graph.nodes if _matches(node, rule, first, last)]
        if not matched:
            raise UsageError(f"{rule.label}: matches no node.{_nearest(rule, graph)}")
        matches.append((rule, matched))
        for node in matched:
            settings[node.name] = settings[node.name].applied(rule.settings, rule.label)
    for node in graph.nodes:
        settings[node.name] = _with_known_weights(node, settings[node.name])
        _check(node, settings[node.name])
    for rule, matched in matches:
        kind = rule.settings.get("weights")
        if kind in FOUR_BITS and not any(ops()[node.op].weights_of_four_bits for node in matched):
            raise UsageError(f"{rule.label}: {FOUR_BITS[kind]} are for {_with_four_bits()}; it matches none of these")
    layers = [settings[node.name] for node in graph.nodes if ops()[node.op].weights_of_four_bits]
    kind = config.defaults.get("weights")
    if kind in FOUR_BITS and layers and not any(s.weights_dtype == kind for s in layers):
        raise UsageError(
            f"{FOUR_BITS[kind]} change nothing: they need int8 layers ({_needed('int8')}), and none is one of {_with_four_bits()}"
        )
    return Precision(settings, values)


def _with_known_weights(node: Node, settings: Settings) -> Settings:
    """The settings with int8 weights in place of those of four bits if a node cannot have these and no rule names the node
    alone.
    """
    known = settings.dtype == "int8" and ops()[node.op].weights_of_four_bits
    if settings.weights_dtype not in FOUR_BITS or known or _narrow(settings.rules, "weights", node):
        return settings
    return replace(settings, weights_dtype="int8")


def left_in_float(
    graph: Graph, precision: Precision, values: Collection[str], reason: str = LEFT_IN_FLOAT
) -> Precision:
    """The precision with float32 for the nodes that read or write one of these values, unless a rule gives them a
    dtype, or they read it in a fixed type. reason: the reason that the report gives.
    """
    nodes = dict(precision.nodes)
    for node in graph.nodes:
        settings = nodes[node.name]
        op = ops()[node.op]
        read = [x for i, x in enumerate(node.inputs) if op.input_type(i, settings.dtype) is None]
        touched = any(name in values for name in (*read, *node.outputs))
        if touched and not settings.explicit_dtype and "float32" in dtypes_of(node.op):
            nodes[node.name] = settings.applied({"dtype": "float32"}, reason)
    return replace(precision, nodes=nodes)


def _dtype_of_model(graph: Graph) -> str:
    """The default dtype of what a quantized model leaves in float: int16 if all that it quantizes is int16."""
    computed = [value for value in graph.values.values() if value.const is None]
    found = {value.qtype.dtype for value in computed if value.qtype not in (None, SOUND)}
    return "int16" if found == {"int16"} else Settings().dtype


def _with_defaults(graph: Graph, node: Node, defaults: Mapping[str, Any], dtype: str) -> Settings:
    """The settings of a node before the rules. The default dtype does not apply to ops that have one dtype only."""
    own = {key: value for key, value in defaults.items() if key != "dtype"} if ops()[node.op].plain else defaults
    return _preset(graph, node, dtype).applied(own, DEFAULTS)


def _preset(graph: Graph, node: Node, dtype: str) -> Settings:
    """The initial settings of a node: the dtype that the model fixes, else the given one, and the law that is closest
    to the model's arithmetic.
    """
    if ops()[node.op].plain:
        return Settings(dtype="float32", rules={"dtype": f"{node.attrs['onnx']} is computed as the model has it"})
    qtype = graph.values[node.outputs[0]].qtype
    if qtype is None and (why := ops()[node.op].float_by_default):
        return Settings(dtype="float32", rules={"dtype": why})
    if qtype is None or qtype.dtype not in DTYPES:
        return Settings(dtype=dtype if dtype in dtypes_of(node.op) else Settings().dtype)
    return Settings(dtype=qtype.dtype, requantization=graph.law or ops()[node.op].law_of_models)


def _ends(graph: Graph) -> tuple[frozenset[str], frozenset[str]]:
    """The nodes up to the first layer with weights, and those from the last such layer on."""
    names = [node.name for node in graph.nodes]
    layers = [i for i, node in enumerate(graph.nodes) if ops()[node.op].weighted] or [0, len(names) - 1]
    return frozenset(names[: layers[0] + 1]), frozenset(names[layers[-1] :])


def _matches(node: Node, rule: Rule, first: frozenset[str], last: frozenset[str]) -> bool:
    named = not rule.names or any(fnmatchcase(n, glob) for glob in rule.names for n in (node.name, *node.origins))
    kind = not rule.kinds or node.op in rule.kinds
    ends = {"first": first, "last": last}
    return named and kind and (rule.position is None or node.name in ends[rule.position])


def _nearest(rule: Rule, graph: Graph) -> str:
    """The available names, the most similar first."""
    if rule.names and not any("*" in name for name in rule.names):
        names = {n for node in graph.nodes for n in (node.name, *node.origins)}
        return " " + str(unknown_name("node", rule.names[0], names))
    return f" Ops of the model: {', '.join(sorted({node.op for node in graph.nodes}))}"


def _matched_values(graph: Graph, rule: Rule) -> dict[str, ValueSettings]:
    matched = [v for n, v in graph.values.items() if any(fnmatchcase(n, glob) for glob in rule.values)]
    if not matched:
        nearest = f" {unknown_name('value', rule.values[0], graph.values)}" if "*" not in rule.values[0] else ""
        raise UsageError(f"{rule.label}: matches no value.{nearest}")
    places = [(node, place) for node in graph.nodes for place in ops()[node.op].weights_and_biases]
    weights = {node.inputs[w] for node, (w, _) in places}
    biases = {node.inputs[b] for node, (_, b) in places}
    ends = {state.input: state.output for state in graph.states}
    for value in matched:
        if value.name in ends and "*" not in "".join(rule.values):
            raise UsageError(
                f"{rule.label}: {value.name!r} is a state and has the type of its next value; give the rule for {ends[value.name]!r}"
            )
        if value.name in biases:
            raise UsageError(f"{rule.label}: {value.name!r} is a bias, whose type follows from input and weights")
        _check_length(rule, value, value.name in weights)
    return {value.name: ValueSettings(**rule.settings, rule=rule.label) for value in matched}


def _check_length(rule: Rule, value: Value, is_weights: bool) -> None:
    count = len(rule.settings.get("scale", (1.0,)))
    allowed = (1, value.shape[0]) if is_weights else (1,)
    if count not in allowed:
        channels = f"1 or {value.shape[0]}" if is_weights else "1, because it is not weights"
        raise UsageError(f"{rule.label}: {count} scales for {value.name!r}; there must be {channels}")


def _check(node: Node, settings: Settings) -> None:
    """Raise UsageError for settings that exclude each other or that this op does not support."""
    where, op = f"{node.op} {node.name!r}", ops()[node.op]
    if settings.dtype not in dtypes_of(node.op):
        known = ", ".join(dtypes_of(node.op))
        raise UsageError(
            f"{settings.rules.get('dtype', 'the model')}: {where} cannot be {settings.dtype}: only {known}"
        )
    asked = {key: rule for key, rule in settings.rules.items() if rule != DEFAULTS}
    if settings.dtype == "float32":
        for key, rule in asked.items():
            if key != "dtype" and rule == settings.rules.get("dtype"):
                raise UsageError(f"{rule}: {where} is float32, which has no {key}")
    of_weights = [name for name, o in NODE_SETTINGS.items() if o.setting is not None and o.setting.of_weights]
    for key in of_weights:
        if key in asked and not op.weighted and settings.dtype != "float32" and _narrow(asked, key, node):
            raise UsageError(f"{asked[key]}: {where} has no weights: leave {key} out of this rule")
    if settings.weights_dtype in FOUR_BITS and op.weighted:
        _check_four_bits(node, settings)
    elif settings.dtype == "int8" and settings.weights_dtype != "int8" and op.weighted:
        raise UsageError(
            f"{settings.rules['weights']}: {where} is int8; weights of int16 need int16 layers ({_needed('int16')})"
        )
    if settings.dtype == "int16" and settings.requantization != "default" and "requantization" in asked and op.weighted:
        mode, rule = settings.requantization, settings.rules["requantization"]
        raise UsageError(f"{rule}: {where} is int16; 'requantization: {mode}' is for int8 only")
    if settings.dtype == "int16" and settings.bias != "int32" and "bias" in asked and op.weighted:
        raise UsageError(
            f"{asked['bias']}: {where} is int16, whose bias is int64; 'bias: {settings.bias}' is for int8 only"
        )
    if settings.dtype == "int16" and settings.weights_schema == "asymmetric" and op.weighted:
        raise UsageError(f"{settings.rules['weights_schema']}: {where} is int16, which needs symmetric weights_schema")


def _needed(dtype: str) -> str:
    """How a user gives layers this dtype."""
    return f"--dtype {dtype}, or 'dtype: {dtype}' in precision.yaml"


def _with_four_bits() -> str:
    """The names of the ops that may have weights of four bits."""
    return ", ".join(sorted(name for name, op in ops().items() if op.weights_of_four_bits))


def _check_four_bits(node: Node, settings: Settings) -> None:
    """Raise UsageError for weights of four bits in a node that cannot have them."""
    where, rule, kind = f"{node.op} {node.name!r}", settings.rules["weights"], FOUR_BITS[settings.weights_dtype]
    if not ops()[node.op].weights_of_four_bits:
        raise UsageError(
            f"{rule}: {where} has no form with {kind}, which {_with_four_bits()} have: give it weights: int8"
        )
    if settings.dtype != "int8":
        raise UsageError(f"{rule}: {where} is {settings.dtype}; {kind} need int8 layers ({_needed('int8')})")
    if settings.weights_schema in ("asymmetric", "symmetric_with_uint8"):
        raise UsageError(
            f"{settings.rules['weights_schema']}: {where} has {kind}, which have no zero point: they need"
            " weights_schema: symmetric or symmetric_with_power2_scale"
        )


def _narrow(asked: Mapping[str, str], key: str, node: Node) -> bool:
    """Whether the rule names exactly this node, and not by a glob or a position, which may match several kinds of
    nodes.
    """
    return f"name: {node.name}" in asked.get(key, "")


def template(graph: Graph) -> str:
    """A precision.yaml to edit: the defaults in full, and for every node with weights a rule that is commented out."""
    lines = [
        "# How each node is computed. Later rules win; a rule that matches nothing is an error.",
        "defaults:",
        *(_default(name, NODE_SETTINGS[name], value) for name, value in Settings().json().items()),
        "rules: []",
        "# rules:",
        "#   - {position: first, dtype: float32}       # up to the first layer with weights",
        "#   - {position: last, dtype: int16}          # from the last layer with weights on",
    ]
    for node in graph.nodes:
        if ops()[node.op].weighted:
            lines.append(f"#   - {{name: {_quoted(node.name)}, op: {node.op}, dtype: int16, weights: int16}}")
    names = [n for n, v in graph.values.items() if v.const is None]
    lines.append(f"#   - {{value: {_quoted(names[-1])}, range: [-8, 8]}}")
    return "\n".join(lines) + "\n"


def _default(name: str, option: Option, value: Any) -> str:
    """The line of the template with the default value of a setting and its possible values."""
    words, setting = option.words, option.setting or Setting()
    note = (words.metavar or "").replace("|", " | ") if setting.note is None else setting.note
    line = f"  {'# ' * (setting.commented or value is None)}{name}: {words.yaml(value)}"
    return f"{line:31}# {note}" if note else line


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
