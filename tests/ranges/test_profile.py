"""Profiles: exact, independent of order, the same after a file, refused where they do not fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from records import PARTS, same, seen
from small_models import model, node, saved, weights

from glowembed.errors import UsageError
from glowembed.graph.ir import Const, Graph, Value
from glowembed.graph.notes import Note
from glowembed.pipeline import CompileOptions, compile_model, import_model, profile_model
from glowembed.quantize.calibrate import METHODS, calibrate
from glowembed.ranges import profile as profiles
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.profile import Profile, merge, to_yaml
from glowembed.ranges.record import observe

# samples of two channels -> the sum over the samples of each sample's mean
MEANS = [
    ([[[1, -2]]], (1.0, -2.0)),
    ([[[1, 0], [2, 0]], [[4, 0]]], (5.5, 0.0)),  # a sample counts once, however many positions it has
    ([[[1 + 2**-15, 2**-30]], [[1, 2**-40]]], (2 + 2**-15, 2**-30 + 2**-40)),
    ([[[1 + 2**-16 + 2**-20, 1 + 2**-17]]], (1 + 2**-15, 1.0)),  # 16 bits of it
    ([[[2.0**127, 2**-149]]], (2.0**127, 2**-149)),
    ([[[2.0**127, 0]], [[1, 0]], [[-(2.0**127), 0]]], (1.0, 0.0)),  # added exactly
]


@pytest.mark.parametrize(("samples", "sums"), MEANS)
def test_means_of_channels(samples: list, sums: tuple[float, float]) -> None:
    value = seen([np.asarray(sample, np.float32) for sample in samples])
    recorded = Profile("ab", len(samples), {"x": value})
    mean = recorded.mean("x")
    assert mean is not None
    assert mean.tolist() == [s / len(samples) for s in sums]


def test_a_sum_of_more_bits_than_a_number_has_survives_the_file(tmp_path: Path) -> None:
    value = seen([np.float32([[x, 1]]) for x in (2.0**100, 1.0, -(2.0**-100))])
    Profile("ab", 3, {"x": value}).save(tmp_path / "p.yaml")
    assert "channel_sum:" in (tmp_path / "p.yaml").read_text("utf-8")
    same(Profile.load(tmp_path / "p.yaml").values["x"], value)


def test_the_numbers_of_an_input_are_kept_if_they_are_few(recorded: Profile, tmp_path: Path) -> None:
    assert len(recorded.values["x"].levels) == 120
    grid = np.arange(300, dtype=np.float32).reshape(100, 3) % 200 / 4
    halves = [profiles.profile(graph(), dataset(part)) for part in (grid[:40], grid[40:])]
    both = merge(*halves)
    assert both.values["x"].levels == tuple(np.arange(200) / 4)
    assert to_yaml(both) == to_yaml(profiles.profile(graph(), dataset(grid)))
    both.save(tmp_path / "p.yaml")
    assert Profile.load(tmp_path / "p.yaml").values["x"].levels == both.values["x"].levels
    more = profiles.profile(graph(), dataset(grid + 0.125))
    assert merge(both, more).values["x"].levels == ()
    assert merge(merge(both, more), both).values["x"].levels == ()


def test_a_profile_without_means_is_one_all_the_same(recorded: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    entry = yaml.safe_load(to_yaml(recorded))
    del entry["values"]["x"]["channel_sum"]
    path.write_text(yaml.safe_dump(entry), encoding="utf-8")
    old = Profile.load(path)
    assert old.mean("x") is None
    assert merge(old, recorded).mean("x") is None


def graph(**constants: np.ndarray) -> Graph:
    values = {"x": Value("x", (1, 3))}
    values |= {n: Value(n, a.shape, const=Const(a)) for n, a in constants.items()}
    return Graph("g", (), values, ("x",), ("x",), model_sha256="ab" * 32)


def with_activation(g: Graph, name: str) -> Graph:
    return replace(g, values={name: Value(name, (1, 3))}, inputs=(name,), outputs=(name,))


def dataset(array: np.ndarray) -> Dataset:
    return Dataset({"x": array.astype(np.float32)}, shapes={"x": (1, 3)})


@pytest.fixture
def recorded() -> Profile:
    array = np.random.default_rng(1).normal(size=(40, 3))
    return profiles.profile(graph(w=np.array([0.1, -0.3], np.float32)), dataset(array))


def test_merge_is_the_profile_of_both(recorded: Profile) -> None:
    array = np.random.default_rng(1).normal(size=(40, 3))
    g = graph(w=np.array([0.1, -0.3], np.float32))
    both = merge(profiles.profile(g, dataset(array[:15])), profiles.profile(g, dataset(array[15:])))
    assert to_yaml(both) == to_yaml(recorded)
    with pytest.raises(UsageError, match="different models"):
        merge(recorded, profiles.profile(graph(), dataset(array)))


def test_a_file_gives_back_every_bit(recorded: Profile, tmp_path: Path) -> None:
    recorded = replace(recorded, notes=(Note("data", "x: transposed"), Note("few-samples", "3")))
    recorded.save(tmp_path / "p.yaml")
    back = Profile.load(tmp_path / "p.yaml")
    assert back.notes == recorded.notes
    assert (back.model_sha256, back.samples, back.version) == (recorded.model_sha256, 40, recorded.version)
    assert list(back.values) == list(recorded.values)
    for name, value in recorded.values.items():
        same(back.values[name], value)
    assert to_yaml(back) == to_yaml(recorded)
    assert [p.name for p in tmp_path.iterdir()] == ["p.yaml"]


@given(PARTS)
def test_any_value_survives_the_file(parts: list[np.ndarray]) -> None:
    value = seen(parts)
    back = profiles._from_document(yaml.safe_load(to_yaml(Profile("ab", 1, {"'*/ \n é": value}))), "here")
    same(back.values["'*/ \n é"], value)


def test_a_profile_that_does_not_fit_says_why(recorded: Profile) -> None:
    recorded.require_fit(graph(w=np.array([0.1, -0.3], np.float32)))
    recorded.require_fit(graph(folded=np.zeros(2, np.float32)))
    other = with_activation(graph(), "v")
    with pytest.raises(UsageError, match=r"values are others\. Missing: 'v'\. Extra: 'x'\."):
        recorded.require_fit(other)
    foreign = Profile("cd" * 32, 1, recorded.values, "0.0.1")
    with pytest.raises(UsageError, match=r"another model file.*cdcd.*abab.*0\.0\.1"):
        foreign.require_fit(other)


def test_a_profile_serves_another_file_of_the_same_network(recorded: Profile) -> None:
    Profile("cd" * 32, 1, recorded.values).require_fit(graph(w=np.array([[-0.3], [0.1]], np.float32)))


def test_a_profile_of_other_weights_does_not_fit(recorded: Profile) -> None:
    retrained = graph(w=np.ones(2, np.float32))
    with pytest.raises(UsageError, match=r"another model file.* Other weights: 'w'\."):
        Profile("cd" * 32, 1, recorded.values).require_fit(retrained)


def export(folder: Path, *names: str) -> Path:
    """One network, whose values another exporter calls otherwise: x -> hidden -> y."""
    x, hidden, y = names
    nodes = [node("Gemm", f"{x} w b", hidden, transB=1), node("Sigmoid", hidden, y)]
    constants = {"w": weights(3, 5), "b": weights(3, seed=2)}
    return saved(model(nodes, {x: [1, 5]}, constants, outputs=(y,)), folder, f"{hidden.replace('/', '_')}.onnx")


def test_a_profile_of_another_export_is_applied(tmp_path: Path) -> None:
    """Values are matched by order and shape, or as --rename says; the bundle equals the one from the export's own
    profile.
    """
    ours, theirs = export(tmp_path, "x", "hidden", "y"), export(tmp_path, "in", "dense/out", "prob")
    samples = np.random.default_rng(1).normal(size=(9, 1, 5)).astype(np.float32)
    options = CompileOptions("x86-64", name="net")
    own = profile_model(ours, Dataset({"x": samples}, shapes={"x": (1, 5)}), options)
    other = profile_model(theirs, Dataset({"in": samples}, shapes={"in": (1, 5)}), options)
    expected = compile_model(ours, tmp_path / "own", options, profile=own)
    matched = compile_model(ours, tmp_path / "matched", options, profile=other)
    said = replace(options, renames={"in": "x", "dense/out": "hidden", "prob": "y"})
    renamed = compile_model(ours, tmp_path / "renamed", said, profile=other)
    assert matched.manifest["hash"] == renamed.manifest["hash"] == expected.manifest["hash"]
    notes = matched.manifest["calibration"]["notes"]
    assert any("'dense/out' is 'hidden'" in str(note) for note in notes)

    other.save(tmp_path / "p.yaml")
    assert list(Profile.load(tmp_path / "p.yaml").values)[:3] == ["in", "dense/out", "prob"], "the file keeps the order"


@pytest.mark.parametrize(
    ("renames", "words"),
    [
        ({"i": "x"}, "unknown value in the profile: 'i'"),
        ({"in": "z"}, "unknown value of the model: 'z'"),
        ({"in": "x", "dense/out": "x"}, "gives two values of the profile one name"),
        ({"in": "x"}, r"Missing: 'hidden', 'y'.*Extra: 'dense/out', 'prob'.*--rename OLD=NEW"),
    ],
)
def test_renames_that_do_not_fit(tmp_path: Path, renames: dict[str, str], words: str) -> None:
    options = CompileOptions("x86-64")
    data = Dataset({"in": np.ones((1, 1, 5), np.float32)}, shapes={"in": (1, 5)})
    other = profile_model(export(tmp_path, "in", "dense/out", "prob"), data, options)
    with pytest.raises(UsageError, match=words):
        other.fitted(import_model(export(tmp_path, "x", "hidden", "y"), options), renames)


def test_what_does_not_agree_in_order_and_shape_is_not_matched(recorded: Profile) -> None:
    """A similar name is not a match."""
    renamed = Profile("cd" * 32, 1, {"model_x_layer": recorded.values["x"]})
    with pytest.raises(UsageError, match=r"Extra: 'model_x_layer'.*--rename OLD=NEW"):
        renamed.fitted(with_activation(graph(), "model/x_layer"), {})


def test_a_person_may_change_a_range(tmp_path: Path) -> None:
    array = np.linspace(-1, 3, 1000, dtype=np.float32)
    recorded = Profile("ab", 1, {"x": observe(array), "y": observe(array)})
    path = tmp_path / "p.yaml"
    text = to_yaml(recorded)
    path.write_text(text.replace("range: [-1.0, 3.0]", "range: [-2, 2.5]", 1), encoding="utf-8")
    edited = Profile.load(path)
    assert (edited.values["x"].edited, edited.values["y"].edited) == (True, False)
    for method in METHODS:
        assert calibrate(edited.values["x"], method) == (-2.0, 2.5)
    with pytest.raises(UsageError, match=r"merge first, then edit\. Edited: 'x'\."):
        profiles.merge(edited, recorded)


def test_profiles_of_other_networks_do_not_merge(recorded: Profile) -> None:
    with pytest.raises(UsageError, match=r"cannot be merged\. They differ in: 'v'\."):
        profiles.merge(recorded, Profile("ab", 1, {**recorded.values, "v": observe(np.ones(3))}))


VALUE = (
    "kind: activation, range: [0, 1], channel_min: [0], channel_max: [1], channel_sum: [0.5], bin_width: 2^-10,"
    " first_bin: 0, counts: 1x3"
)
# what stands in VALUE -> what stands there instead
BAD_VALUES = {
    "range: [0, 1]": ["range: [1, 0]", "range: [.nan, 1]", "range: [0, .inf]", "range: [a, b]", "range: 5", "x: 1"],
    "channel_min: [0]": ["channel_min: [2]", "channel_min: [0, 0]", "channel_min: [true]"],
    "channel_sum: [0.5]": [
        "channel_sum: [.nan]",
        "channel_sum: [a]",
        "channel_sum: [1, 2]",
        "channel_sum: 5",
        "channel_sum: [[.inf]]",
    ],
    "first_bin: 0,": [
        "first_bin: 0, levels: [1, 0],",
        "first_bin: 0, levels: [.nan],",
        "first_bin: 0, levels: [0, 0],",
    ],
    "counts: 1x3": ["counts: -1", "counts: 1x9999999999", "counts: a", "counts: 0", "counts: [1]", "counts: ''"],
    "bin_width: 2^-10": ["bin_width: 2^9999999", "bin_width: 3", "bin_width: wide"],
    "first_bin: 0": [
        "first_bin: 0.5",
        "first_bin: false",
        f"first_bin: {10**309}",
        f"first_bin: -{2**24 + 1}",
        f"first_bin: {2**24}",
    ],
}


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, news in BAD_VALUES.items() for new in news])
def test_bad_values_are_refused(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    head = "format: glowembed profile 1\nsamples: 1\nvalues:\n  conv_1: "
    path.write_text(head + "{" + VALUE + "}\n")
    Profile.load(path)
    path.write_text(head + "{" + VALUE.replace(old, new) + "}\n")
    with pytest.raises(UsageError, match="conv_1") as error:
        Profile.load(path)
    assert not new.startswith("range") or "two finite numbers, the lower first" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "hello", "a: [", "format: other", "format: glowembed profile 1\nsamples: 0\nvalues: {}", "\x00", "[" * 5000,
     "!!python/object/apply:os.system ['true']"],
)  # fmt: skip
def test_bad_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"p\.yaml"):
        Profile.load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        Profile.load(tmp_path / "none.yaml")
