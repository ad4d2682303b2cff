"""The table of options of `compile`. Apart from the code that uses it, an option is one entry in this table.

NodeOptions are those that precision.yaml may also set for single nodes, CompileOptions adds those of the whole network;
Settings are the options of one node when all rules have been applied. The command line with its help (cli.takes), the
record in the manifest, the settings of precision.yaml and docs/options.md are made from the entries (option.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from glowembed.errors import UsageError
from glowembed.graph.external import External
from glowembed.graph.plan import (
    InputLayout,
    InputPlace,
    IoPlace,
    Optimize,
    Places,
    PlanMode,
    PlanOptions,
    Weights,
    WeightsPlace,
)
from glowembed.graph.registry import with_levels
from glowembed.graph.target import Target, load_target, with_isa
from glowembed.law.modes import MODES
from glowembed.options.cut import WHOLE, Cut, named_constants, written_constants
from glowembed.options.frontend import Frontend, named_frontend, written_frontend
from glowembed.options.option import Option, Setting, entry, in_order, listed, settings, table
from glowembed.options.words import (
    COMPRESSED,
    FOUR_BITS,
    Bytes,
    Flag,
    Number,
    OnOff,
    Parsed,
    Streamed,
    Words,
    given_clock,
    named_levels,
    named_rams,
    named_renames,
    named_shapes,
    named_states,
    named_stream,
    named_values,
    one_of,
    written_clock,
    written_rams,
    written_stream,
)
from glowembed.records import dataclass

Schema = Literal["asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"]
SCHEMAS: tuple[Schema, ...] = get_args(Schema)
StreamPadding = Literal["window", "causal", "zero-start"]
METHODS = ("minmax", "percentile", "kl", "mse", "sqnr")
DTYPES = ("int8", "int16", "float32")
MODEL_TYPES = "model"
"""The dtype of a network in which every value has the type that the model gives it."""

QUANTIZATION, MEMORY = "Quantization", "Memory"
WEIGHTS_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\.(?!c$|h$|mk$|txt$|json$)[A-Za-z0-9]+")


def at_least_one(count: float | None) -> bool:
    """Whether a number of samples, if one is given, is one or more."""
    return count is None or count >= 1


def at_least_a_thousand(cycles: float | None) -> bool:
    """Whether a number of cycles, if one is given, is a thousand or more."""
    return cycles is None or cycles >= 1000


DEFAULTS = "defaults"
"""The rule named in Settings.rules for a setting that comes from the defaults of the network."""

ORDER_OF_SETTINGS = (
    "dtype", "weights", "schema", "weights_schema", "calibration", "weights_calibration", "percentile", "per_channel",
    "bias", "bias_correction", "requantization",
)  # fmt: skip
"""The order of settings in bundles and in the template, whose bytes do not change; further settings follow."""


ORDER_OF_MANIFEST = (
    "shapes", "input_layout", "float_io", "dtype", "weights_dtype", "calibration", "percentile", "per_channel", "schema",
    "weights_schema", "weights_calibration", "requantization", "bias_correction", "optimize", "plan", "plan_effort", "ram",
    "flash", "io", "input", "winograd", "polynomial", "weights", "isa", "rams",
)  # fmt: skip
"""The order of options in manifests, whose bytes do not change; further options follow."""


EXACT = "int16 exact"
"""Weights of int16 with all their bits, whose sums may take 64 bits."""


def weights_place(text: str) -> Weights:
    """The place of weights given by --weights."""
    place, colon, file = text.partition(":")
    if place == "file" and WEIGHTS_NAME.fullmatch(file):
        return Weights("file", file)
    if place not in ("flash", "ram") or colon:
        more = f"; for the type, --weights-dtype {text}" if text in (*FOUR_BITS, "int8", "int16") else ""
        raise UsageError(
            f"--weights {text!r}: expected flash, ram or file:NAME, with NAME such as net_weights.bin{more}"
        )
    return Weights(cast(WeightsPlace, place))


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """What a user asks for. None means not given: the dtype, or the model, then decides."""

    calibration: str | None = entry(
        None,
        Option(
            "How ranges follow from the profile; by default mse for int8, minmax for int16.",
            one_of(METHODS),
            setting=Setting(),
            after="float_io",
        ),
    )
    percentile: float = entry(
        99.99,
        Option(
            "Share of values to keep in range.",
            Number("P", float, "above 50 and at most 100", lambda share: 50 < share <= 100),
            setting=Setting(),
        ),
    )
    schema: str | None = entry(
        None,
        Option(
            "Scale and zero point of activations; by default asymmetric for int8, symmetric for int16.",
            one_of(SCHEMAS),
            QUANTIZATION,
            Setting(),
        ),
    )
    weights_schema: str = entry(
        "symmetric",
        Option("Scale and zero point of weights.", one_of(SCHEMAS), QUANTIZATION, Setting(note="", of_weights=True)),
    )
    weights_calibration: str = entry(
        "minmax",
        Option(
            "How ranges follow from the weights of a channel.",
            one_of(METHODS),
            QUANTIZATION,
            Setting(note="", of_weights=True),
        ),
    )
    requantization: str | None = entry(
        None,
        Option(
            "default: one rounding. onnx: halves to even, as in onnxruntime; this is the default for sums and averages of "
            "quantized models. glow, tflite: the bits of a Glow bundle or of TensorFlow Lite Micro.",
            one_of(MODES),
            QUANTIZATION,
            Setting(commented=True),
        ),
    )
    dtype: str | None = entry(
        None,
        Option(
            "The type in which all layers compute; by default int8. model: every tensor has the type that the model "
            "gives it.",
            one_of(DTYPES, (MODEL_TYPES,)),
            QUANTIZATION,
            Setting(note="int8 | int16 (activations) | float32"),
        ),
    )
    weights_dtype: str | None = entry(
        None,
        Option(
            "int4 and compressed: two weights in a byte of flash, for int8 layers that have such a form; each layer unpacks its own "
            "in RAM before it runs. compressed: the weights of a layer are sixteen numbers of int8, chosen for least error. Weights of int16 layers: int8, or int16 if the rounding of weights costs accuracy. int16 keeps as many bits "
            "of each channel as fit sums of 32 bits; 'int16 exact' keeps all bits, with sums of 64 bits, which are slower.",
            one_of(("int4", COMPRESSED, "int8", "int16", EXACT)),
            QUANTIZATION,
            Setting(
                "weights",
                note="int8 | of int8 nodes: int4 | compressed | of int16 nodes: int16 | int16 exact",
                of_weights=True,
            ),
            noun="dtype of weights",
        ),
    )
    bias_correction: bool = entry(
        True,
        Option(
            "Subtract the mean error of rounded weights from the bias, if the profile has the means.",
            OnOff(),
            QUANTIZATION,
            Setting(note="on | off: subtract the mean error of rounded weights from the bias", of_weights=True),
        ),
    )
    per_channel: bool = entry(
        True,
        Option(
            "Use one weight scale per layer instead of per channel.",
            Flag(given=False),
            setting=Setting(of_weights=True),
            flag="--per-tensor",
        ),
    )


@dataclass(frozen=True)
class Rule:
    """One entry of `rules`: the matchers, all of which must hold, and the settings that it makes."""

    label: str
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    position: str | None = None
    values: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A precision.yaml. Without a file, everything is int8. `file`: its name, for messages."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    file: str = ""


@dataclass(frozen=True, kw_only=True)
class CompileOptions(NodeOptions):
    """The choices of a user, with defaults that suit most networks."""

    renames: Mapping[str, str] = entry(
        {},
        Option(
            "Rename a value of --profile for this export of the model. Repeatable.",
            Parsed("OLD=NEW", list[str], named_renames, dict),
            recorded=False,
            flag="--rename",
        ),
    )
    """Name in the profile -> name in the model, for a profile of another export."""
    target: str = field(
        default="cortex-m4",
        kw_only=False,
        metadata=listed(Option("A name (`glowembed targets` lists them) or FILE.toml.", recorded=False)),
    )
    isa: str | None = entry(
        None,
        Option(
            "Use only these instruction sets of the target; by default all. portable: C99 without assembly, for any "
            "compiler.",
            Words("portable|WORD,..."),
        ),
    )
    levels: tuple[str, ...] = entry(
        (),
        Option(
            "Of x86-64: compile kernels only for these of the levels sse41, avx2, avxvnni and avx512vnni, and as portable C; by default "
            "for all. The program is smaller.",
            Parsed("avx2,avx512vnni", str, named_levels, ",".join),
            recorded="given",
        ),
    )
    name: str | None = field(
        default=None,
        kw_only=False,
        metadata=listed(
            Option("Prefix of C names and files; by default the name of the model's file.", recorded=False)
        ),
    )
    shapes: Mapping[str, tuple[int, ...]] = entry(
        {},
        Option(
            "Shape of an input that the model leaves open. Repeatable.",
            Parsed("NAME=1,3,64,64", list[str], named_shapes, lambda of: {name: list(of[name]) for name in sorted(of)}),
            flag="--shape",
        ),
    )
    cut: Cut = entry(
        WHOLE,
        Option(
            "Cut the model: these values become its inputs.",
            Parsed("A,B", str, named_values, list),
            part="inputs",
            recorded="given",
            after="shapes",
        ),
        Option(
            "Cut the model: these values become its outputs.",
            Parsed("C,D", str, named_values, list),
            part="outputs",
            recorded="given",
        ),
        Option(
            "Give an input this value for good, and compile only what then remains, as of a network for two sample rates. Repeatable.",
            Parsed("NAME=16000", list[str], named_constants, written_constants),
            part="constants",
            recorded="given",
            flag="--constant",
        ),
    )
    states: Mapping[str, str] = entry(
        {},
        Option(
            "Use the output OUT of each run as the input IN of the next. Repeatable; none: also ignore pairs with names of states.",
            Parsed("OUT=IN", list[str], named_states, dict),
            recorded="given",
            flag="--state",
        ),
    )
    """Output -> input, besides the pairs whose names say that they are states."""
    stream: Streamed | None = entry(
        None,
        Option(
            "Take HOP new rows of a window in each run, along AXIS of this input; both are 1 by default.",
            Parsed("INPUT[:AXIS][:HOP]", str, named_stream, written_stream),
            recorded="given",
        ),
    )
    stream_padding: StreamPadding = entry(
        "window",
        Option(
            "window: the bits of whole windows. causal: cheaper; convolutions read the rows before the window instead of padding."
            " zero-start: as causal, and padding below a window also becomes rows before it, so that results come later.",
            one_of(get_args(StreamPadding)),
            recorded="given",
        ),
    )
    frontend: Frontend | None = entry(
        None,
        Option(
            "Put a front end before the network, so that it takes sound: mfcc, logmel, spectrogram, raw, or FILE.yaml.",
            Parsed("KIND|FILE", str, named_frontend, written_frontend),
            recorded="given",
        ),
    )
    random: int | None = entry(
        None,
        Option(
            "Use N seeded random samples instead of --data, to try things out: ranges and accuracy are then meaningless.",
            Number("N", int, "at least 1", at_least_one),
            recorded="given",
        ),
    )
    input_layout: InputLayout = entry(
        "model", Option("nhwc: the bundle takes inputs in NHWC, without a transpose.", one_of(get_args(InputLayout)))
    )
    float_io: bool = entry(False, Option("Float inputs and outputs instead of int8.", Flag()))
    float64_as_float32: bool = entry(
        False,
        Option(
            "With --dtype model: compute float64 as float32. Without it, targets without float64 in hardware refuse float64.",
            Flag(),
            QUANTIZATION,
            recorded="given",
        ),
    )
    precision: Path | str | Config | None = entry(
        None,
        Option(
            "Settings of single layers: int8, int16, float32 and more; see `precision`.",
            Words("FILE", Path),
            recorded=False,
            after="per_channel",
        ),
    )
    require_all_quantized: bool = entry(
        False, Option("Fail if nodes stay float32, and list them.", Flag(), recorded=False)
    )
    plan: PlanOptions = entry(
        PlanOptions(),
        Option(
            "balanced: least RAM for at most 5 % more cycles, and less flash where that is worth its cycles; "
            "ram: least RAM for at most twice the cycles; "
            "speed: fewest cycles, with --flash also by --polynomial and --winograd; "
            "size: least flash, with one small kernel for each op.",
            one_of(get_args(Optimize)),
            MEMORY,
            part="optimize",
            noun="optimization",
        ),
        Option("Find the fastest plan within this much RAM, such as 20K.", Bytes(), MEMORY, part="ram"),
        Option("How offsets are found.", one_of(get_args(PlanMode)), MEMORY, part="mode", name="plan"),
        Option(
            "How long the solver may search, in its own units of work.",
            Number("N", int, "0 to 1000", lambda effort: 0 <= effort <= 1000),
            MEMORY,
            part="effort",
            name="plan_effort",
        ),
        Option(
            "A RAM besides the arena, for the data used most: dtcm=64K. Repeatable, the fastest first. With a bandwidth, the slow memory "
            "in which the weights lie: qspi=8M:20MB/s:dma.",
            Parsed("NAME=BYTES", list[str], named_rams, written_rams),
            MEMORY,
            part="rams",
            flag="--memory",
        ),
        Option(
            "Add NAME_step, which computes a run in slices of at most this many estimated cycles.",
            Number("CYCLES", int, "at least 1000", at_least_a_thousand),
            MEMORY,
            part="slice",
            recorded="given",
        ),
        Option(
            "Copy weights from slow memory into a window of this many bytes of the arena before they are used.",
            Bytes(),
            MEMORY,
            part="prefetch",
            recorded="given",
        ),
    )
    clock: int | None = entry(
        None,
        Option(
            "Clock of the core, to which --prefetch compares the bandwidth of the slow memory; by default that of --board.",
            Parsed("120MHz", str, given_clock, written_clock),
            MEMORY,
            recorded="given",
        ),
    )
    flash: int | None = entry(
        None,
        Option("Find the fastest kernels with this much flash for weights and code.", Bytes(), MEMORY, after="ram"),
    )
    winograd: bool = entry(
        False,
        Option(
            "Allow kernels with 3.6 times the flash for 3x3 weights, if they are faster (cortex-m4, m7, m33).",
            Flag(),
            MEMORY,
        ),
    )
    polynomial: bool = entry(
        False,
        Option(
            "Allow kernels with twice the flash for 1x1 weights, if they are faster (cortex-m4, m7, m33).",
            Flag(),
            MEMORY,
        ),
    )
    places: Places = entry(
        Places(),
        Option(
            "Place inputs and outputs in the arena, or in buffers of the caller.",
            one_of(get_args(IoPlace)),
            MEMORY,
            part="io",
            noun="--io",
            after="rams",
        ),
        Option(
            "rows: a function of the caller hands inputs over row by row, channels last.",
            one_of(get_args(InputPlace)),
            MEMORY,
            part="input",
            noun="--input",
        ),
    )
    weights: Weights = entry(
        Weights(),
        Option(
            "Keep constants in flash, copy them to RAM at start, or load them from a file of the bundle.",
            Parsed("flash|ram|file:NAME", str, weights_place, str),
            MEMORY,
        ),
    )

    @staticmethod
    def from_words(given: Mapping[str, Any]) -> CompileOptions:
        """The options given by words of the command line, by their names; all others have their defaults."""
        made = CompileOptions()
        for name, words in given.items():
            option = OPTIONS[name]
            value = option.words.read(option.flag, option.noun, words)
            if option.part:
                value = replace(getattr(made, option.field), **{option.part: value})
            made = replace(made, **{option.field: value})
        return made

    @property
    def exact(self) -> bool:
        """Whether floats keep the types of the model."""
        return self.dtype == MODEL_TYPES

    def core(self) -> Target:
        """The target, limited to the instruction sets that kernels may use."""
        return with_levels(with_isa(load_target(self.target), self.isa), self.levels)

    def check_prefetch(self) -> None:
        """Raise UsageError if --prefetch meets an option that excludes it, or does not know the slow memory."""
        slow, words = self.plan.external, f"--prefetch {self.plan.prefetch}"
        if self.plan.prefetch is None:
            return
        if self.plan.slice is not None:
            raise UsageError(f"{words} and --slice exclude each other: a slice may end between a copy and its use")
        if self.weights.place != "flash":
            why = {"ram": "they are in RAM already", "file": "their address is known only at run time"}[
                self.weights.place
            ]
            raise UsageError(
                f"{words} copies weights that are part of the program: with --weights {self.weights}, {why}"
            )
        if slow is None or slow.external is None:
            raise UsageError(
                f"{words}: the memory that holds the weights is not known; describe it, as in --memory qspi=8M:20MB/s:dma, or name a --board"
                " whose memory for weights has a bandwidth"
            )
        if self.clock is None:
            raise UsageError(
                f"{words}: the clock of the core is not known; give it, as in --clock 120MHz, or name a --board"
            )

    def source(self) -> tuple[External, int]:
        """The slow memory and the clock; `check_prefetch` has found both."""
        slow = self.plan.external
        assert slow is not None and slow.external is not None and self.clock is not None
        return slow.external, self.clock

    def kernel_options(self) -> tuple[str, ...]:
        """The values of `Kernel.option` that are allowed."""
        return tuple(name for name in ("winograd", "polynomial") if getattr(self, name))

    def recorded(self) -> dict[str, Any]:
        """The options that go into the manifest; the percentile only where it is used."""
        used = "percentile" in (self.calibration, self.weights_calibration)
        kept = {name: option for name, option in OPTIONS.items() if option.is_recorded(self)}
        listed = {name: option.words.recorded(option.of(self)) for name, option in kept.items()}
        return listed if used else {**listed, "percentile": None}


@dataclass(frozen=True, kw_only=True)
class Settings(NodeOptions):
    """How one node is computed. `schema` None means asymmetric for int8, symmetric for int16. `calibration` None means
    mse for int8, for which clipping reduces the error, and minmax for int16. `percentile` applies to the
    calibration of this name. `rules` maps each setting to the rule that set it; settings that are absent have
    glowembed's default.
    """

    dtype: str = "int8"
    weights_dtype: str = "int8"
    requantization: str = "default"
    bias: str = entry("int32", Option(words=one_of(("int32", "int16", "int8")), setting=Setting(of_weights=True)))
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def stored_weights(self) -> str:
        """The dtype in which weights are stored."""
        if self.dtype == "int16":
            return "int8" if self.weights_dtype in ("int8", *FOUR_BITS) else "int16"
        return "int4" if self.weights_dtype == "int4" else "int8"

    @property
    def activation_schema(self) -> str:
        return self.schema or ("symmetric" if self.dtype == "int16" else "asymmetric")

    @property
    def activation_calibration(self) -> str:
        return self.calibration or ("minmax" if self.dtype == "int16" else "mse")

    @property
    def explicit_dtype(self) -> bool:
        """Whether a rule, and not only the defaults, asks for this dtype."""
        return self.rules.get("dtype", DEFAULTS) != DEFAULTS

    def applied(self, new: Mapping[str, Any], rule: str) -> Settings:
        """These settings with new ones, by their names in precision.yaml."""
        values = {NODE_SETTINGS[name].field: value for name, value in new.items()}
        return replace(self, **values, rules={**self.rules, **dict.fromkeys(new, rule)})

    def json(self) -> dict[str, Any]:
        """The settings that have a meaning for this dtype."""
        if self.dtype == "float32":
            return {"dtype": "float32"}
        shown = {name: option.of(self) for name, option in NODE_SETTINGS.items()}
        shown |= {"schema": self.activation_schema, "calibration": self.activation_calibration}
        if "percentile" not in (self.calibration, self.weights_calibration):
            del shown["percentile"]
        return shown


OPTIONS: Mapping[str, Option] = in_order(table(CompileOptions), ORDER_OF_MANIFEST)
"""The options by name."""

NODE_SETTINGS: Mapping[str, Option] = settings(table(Settings), ORDER_OF_SETTINGS)
"""The settings that precision.yaml may have, by their names there."""
