"""Weights of trax's Reformer: each array goes to its place, nothing else passes."""

import dataclasses
import gzip
import pathlib
import pickle
import re

import jax
import numpy as np
import pytest
import tiny_model
from bombs import Bomb
from random_params import assert_equal, random_params

from etc_jax.cli import convert
from etc_jax.conversion.engine import ConversionError
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.trax_pickle import Unread, read_pickle
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.trax import import_trax, read_weights
from etc_jax.models.reformer.weights import config_to_hf

CONFIG = tiny_model.REFORMER_OF_ODD_WIDTHS


@pytest.fixture(scope="module")
def params():
    tokens = np.zeros((1, 4), np.int32)
    return random_params(
        ReformerLm(CONFIG).init, tokens, spread=0.5, center=0.4, scale=0.4
    )


def trax_attention(params, kind):
    """Heads stand first in every projection."""
    names = ["query_key"] if kind == "lsh" else ["query", "key"]
    projections = [params[n]["kernel"].transpose(1, 0, 2) for n in (*names, "value")]
    return (*projections, params["out"]["kernel"])


def trax_nest(params, chunked=False, positions_in_tuples=False):
    """The nest of a model, written down part by part."""
    encoder = params["encoder"]
    layers = []
    for number in range(4):
        kind = ("local", "lsh")[number % 2]
        stacked = encoder["stack"]["layers"][f"{kind}_{number % 2}"]
        one = jax.tree.map(lambda x, i=number // 2: x[i], stacked)
        norm, mlp = one["f"]["attention_norm"], one["g"]["mlp"]
        attention = trax_attention(one["f"]["attention"], kind)
        layers.append([[(norm["scale"], norm["bias"]), ()], attention, ()])
        layers.append(())
        norm = one["g"]["mlp_norm"]
        inner = [
            (norm["scale"], norm["bias"]),
            (mlp["wi"]["kernel"], mlp["wi"]["bias"]),
            (),
            (),
            (mlp["wo"]["kernel"], mlp["wo"]["bias"]),
            (),
        ]
        inner = ((), (), inner, ()) if chunked else inner
        layers.append([[(), [(), (), inner]], (), ()])
        layers.append(())
    table = encoder["embeddings"]["position_embedder"]
    positions = (table["rows"][None, :, None], table["columns"][None, None])
    if positions_in_tuples:
        positions = tuple((array[0],) for array in positions)
    norm, logits = encoder["final_norm"], params["logits"]
    return [
        (),
        encoder["embeddings"]["token_embedder"]["embedding"],
        (),
        positions,
        (),
        layers,
        (),
        (norm["scale"], norm["bias"]),
        (),
        (logits["kernel"], logits["bias"]),
        (),
    ]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("positions_in_tuples", [False, True])
def test_every_array_goes_to_its_place(params, chunked, positions_in_tuples):
    nest = trax_nest(params, chunked, positions_in_tuples)
    got, report = import_trax(nest, CONFIG)
    assert_equal(got, params)
    assert not report.missing and not report.unused
    values = report.loaded["encoder/stack/layers/lsh_1/f/attention/value/kernel"]
    assert values == ("weights[5][4][1][1]", "weights[5][12][1][1]")


def test_the_model_computes_the_same(params):
    got, _ = import_trax(trax_nest(params), CONFIG)
    tokens = np.random.default_rng(1).integers(0, 19, (2, 16)).astype(np.int32)
    apply = jax.jit(ReformerLm(CONFIG).apply)
    logits = [apply({"params": p}, tokens) for p in (got, params)]
    np.testing.assert_array_equal(*logits)


def transformers_arrays(nest):
    """The same weights as transformers has them, head below head."""

    def below(heads):
        return np.concatenate([head.T for head in heads])

    positions = [array[0] for array in nest[3]]
    found = {
        "reformer.embeddings.word_embeddings.weight": nest[1],
        "reformer.encoder.layer_norm.weight": nest[7][0],
        "reformer.encoder.layer_norm.bias": nest[7][1],
        "lm_head.decoder.weight": nest[9][0].T,
    }
    for i, array in enumerate(positions):
        found[f"reformer.embeddings.position_embeddings.weights.{i}"] = array
    for layer in range(4):
        attention, mlp = nest[5][4 * layer], nest[5][4 * layer + 2][0][1][2]
        *projections, out = attention[1]
        names = ["query_key"] if len(projections) == 2 else ["query", "key"]
        start = f"reformer.encoder.layers.{layer}."
        for name, array in zip([*names, "value"], projections, strict=True):
            found[f"{start}attention.self_attention.{name}.weight"] = below(array)
        found[f"{start}attention.output.dense.weight"] = np.concatenate(out).T
        for k, name in enumerate(("weight", "bias")):
            for place, pair in (
                ("attention.layer_norm", attention[0][0]),
                ("feed_forward.layer_norm", mlp[0]),
                ("feed_forward.dense.dense", mlp[1]),
                ("feed_forward.output.dense", mlp[4]),
            ):
                found[f"{start}{place}.{name}"] = pair[k].T
    return found


@pytest.mark.torch
@pytest.mark.parametrize("length", [8, 24, 48])
def test_transformers_computes_the_same_from_the_nest(params, length):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = dataclasses.replace(CONFIG, rounding="transformers", hash_seed=3)
    nest = trax_nest(params)
    nest[9] = (nest[9][0], 0 * nest[9][1])  # transformers 5 does not add it
    values = config_to_hf(config)
    theirs = transformers.ReformerModelWithLMHead(
        transformers.ReformerConfig(**values)
    ).eval()
    arrays = {k: torch.tensor(v) for k, v in transformers_arrays(nest).items()}
    missing, unexpected = theirs.load_state_dict(arrays, strict=False)
    assert not unexpected and {name.rpartition(".")[2] for name in missing} <= {"bias"}
    tokens = np.random.default_rng(1).integers(3, 19, (2, length)).astype(np.int32)
    with torch.no_grad():
        want = theirs(torch.tensor(tokens).long()).logits.numpy()
    torch.manual_seed(config.hash_seed)
    half = sum(config.num_buckets) // 2
    rotations = torch.randn(2, config.head_dim, config.num_hashes, half).numpy()
    got, _ = import_trax(nest, config)
    with jax.default_matmul_precision("highest"):
        logits = ReformerLm(config).apply({"params": got}, tokens, None, rotations)
    np.testing.assert_allclose(logits, want, atol=1e-4, rtol=1e-4)


def changed(nest, place, value):
    """A copy of a nest with another value at one place."""
    if not place:
        return value
    first, *rest = place
    parts = list(nest)
    parts[first] = changed(parts[first], rest, value)
    return parts


ARRAY = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    "place, value, message",
    [
        (
            (5, 12, 1, 1),
            ARRAY,
            r"layer 3: .*lsh_1/f/attention/value/kernel: weights\[5\]\[12\]\[1\]\[1\] "
            r"has the shape \(2, 3\); expected \(2, 12, 5\)",
        ),
        ((5, 8, 0, 0), (), r"layer 2: .*local_0/f/attention_norm/scale: missing"),
        (
            (5, 6, 0, 1, 2, 1),
            (ARRAY, np.zeros(16)),
            r"1 conv.*\n  layer 1: .*lsh_1/g/mlp/wi/kernel: .* expected \(12, 16\)",
        ),
        (
            (5, 4, 1),
            (ARRAY,) * 4,
            r"layer 1: weights\[5\]\[4\]\[1\] has the 4 arrays of local attention, but "
            "model.pattern makes it lsh",
        ),
        ((5, 4, 1), (ARRAY,) * 2, r"layer 1: .*/out/kernel: missing; expected at"),
        ((3, 1), ARRAY, r"position_embedder/columns: .* expected \(1, 1, 8, 8\)"),
        ((9,), (), r"logits/kernel: missing; expected at weights\[9\]\[0\]"),
        ((8,), ARRAY, r"weights\[8\], float32 of shape \(2, 3\), is nothing that"),
        ((2,), [None], r"weights\[2\]\[0\] is NoneType None; expected numpy arrays"),
        ((1,), Unread(), r"weights\[1\] is an object of ; expected numpy"),
        (
            (1,),
            np.zeros((19, 12), np.int32),
            "token_embedder/embedding: dtype int32 of .*, expected float32",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_layer(params, place, value, message):
    with pytest.raises(ConversionError, match=message):
        import_trax(changed(trax_nest(params), place, value), CONFIG)


def test_a_weight_that_is_there_twice_is_refused(params):
    inner = trax_nest(params)[5][2][0][1][2]
    nest = changed(trax_nest(params), (5, 2, 0, 1, 2, 2), inner)
    with pytest.raises(ConversionError, match=r"\[2\]\[0\]\[0\] are the same weight"):
        import_trax(nest, CONFIG)


@pytest.mark.parametrize(
    "nest, changes, message",
    [
        ([ARRAY] * 9, {}, r"weights\[5\] is no list .* not a flat list of its arrays"),
        ([], {}, r"weights\[5\] is no list"),
        (None, {"num_layers": 2}, "has 16 parts, 4 a layer, but model.num_layers is 2"),
        (None, {"axial_shape": None, "axial_dims": None}, "model.axial_shape is None"),
        # Of each layer wi's kernel and bias, and wo's kernel.
        (None, {"mlp_dim": 17}, r"12 .*problems:(\n  layer \d: .*g/mlp/w.*){12}$"),
    ],
)
def test_other_models_are_refused(params, nest, changes, message):
    nest = trax_nest(params) if nest is None else nest
    with pytest.raises(ValueError, match=message):
        import_trax(nest, dataclasses.replace(CONFIG, **changes))


class Foreign:
    """What the trainer of trax keeps beside the weights."""

    def __init__(self):
        self.values = [1, 2]


class ForeignDict(dict):
    """A dict that a pickle fills item by item, and whose attributes it sets."""


def write(path, content, protocol=4, pack=gzip.compress):
    path.write_bytes(pack(pickle.dumps(content, protocol)))
    return path


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_files_hold_the_same_nest(params, tmp_path, protocol, pack):
    saved = {"step": 7, "history": Foreign(), "weights": trax_nest(params)}
    file = write(tmp_path / "model.pkl", saved, protocol, pack)
    assert_equal(import_trax(read_weights(file), CONFIG)[0], params)


def test_nothing_in_a_file_is_run(params, tmp_path):
    ran = tmp_path / "ran"
    saved = {"weights": trax_nest(params), "history": Bomb(ran)}
    file = write(tmp_path / "model.pkl.gz", saved)
    assert_equal(import_trax(read_weights(file), CONFIG)[0], params)
    assert not ran.exists()
    pickle.loads(pickle.dumps(saved))
    assert ran.exists()


def test_objects_in_the_place_of_arrays_are_named(params, tmp_path):
    nest = changed(trax_nest(params), (1,), Foreign())
    weights = read_weights(write(tmp_path / "model.pkl.gz", nest))
    with pytest.raises(ConversionError, match=r"weights\[1\] is an object .*Foreign"):
        import_trax(weights, CONFIG)


def test_objects_stay_inert_whatever_is_asked_of_them(tmp_path):
    asked = ForeignDict(a=1)
    asked.more = [2]
    file = write(tmp_path / "x.pkl", [asked, Foreign, {1, 2}, np.float32(3)])
    one, other, numbers, three = read_pickle(file)
    assert isinstance(one, Unread) and one.origin == f"{__name__}.ForeignDict"
    assert issubclass(other, Unread) and other.origin == f"{__name__}.Foreign"
    assert (numbers, three) == ({1, 2}, 3)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is damaged, or no pickle"),
        (b"\x1f\x8bnothing", "is damaged, or no pickle"),
        (b"no pickle at all", "is damaged, or no pickle"),
        (gzip.compress(pickle.dumps(bytes(1 << 25)), mtime=0), "packed too densely"),
        (pickle.dumps([np.zeros(9)])[:-20], "is damaged, or no pickle"),
        (pickle.dumps({"step": 3}), "no entry 'weights'; it has step"),
        (pickle.dumps({}), "no entry 'weights'; it has nothing"),
        (pickle.dumps({"weights": 3}), "are int 3; expected nested lists"),
        (pickle.dumps(ARRAY), r"are float32 of shape \(2, 3\); expected nested"),
    ],
)
def test_damaged_and_other_files_are_one_clear_error(tmp_path, content, message):
    file = tmp_path / "model.pkl"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_weights(file)


def test_a_nest_without_an_end_is_refused(params):
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="more than 16 deep"):
        import_trax(changed(trax_nest(params), (8,), endless), CONFIG)


CONFIG_FILE = """
import dataclasses
from etc_jax import config as config_lib
from etc_jax.models.reformer.config import ReformerConfig


def get_config(arg=""):
    config = config_lib.default_config(arg or "reformer")
    if not arg:
        config.model.update({fields})
    return config
"""


@pytest.fixture
def run(tmp_path, params, monkeypatch, capsys):
    """The command in a folder with a checkpoint; (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "model.pkl.gz", {"weights": trax_nest(params)})
    fields = repr(dataclasses.asdict(CONFIG))
    (tmp_path / "small.py").write_text(CONFIG_FILE.replace("{fields}", fields))

    def run(*argv):
        code = convert.main(["--trax=model.pkl.gz", "--out=model", *argv])
        return code, *capsys.readouterr()

    return run


# ml_collections loads config files in a way that Python announces to give up.
@pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")
class TestCommand:
    def test_a_file_becomes_a_model(self, run, params):
        code, out, err = run("--config=small.py")
        assert (code, err) == (0, "")
        assert "arrays of ReformerConfig" in out and "wrote model" in out
        saved, config = native.load("model")
        assert config == CONFIG
        assert_equal(saved, params)

    @pytest.mark.parametrize(
        "argv, message",
        [
            (["--config=small.py:etc"], "of a etc; what is read of trax is a reformer"),
            (["--config=small.py", "--config.model.num_layers=2"], "has 16 parts"),
            (["--config=small.py", "--trax=absent.pkl"], "No such file .*absent.pkl"),
        ],
    )
    def test_what_does_not_fit_is_told(self, run, argv, message):
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert err.startswith("etc-jax convert: ")
        assert re.search(message, err), err
        assert not pathlib.Path("model").exists()

    def test_the_config_is_needed(self, run, capsys):
        with pytest.raises(SystemExit):
            run()
        assert "--trax needs --config=NAME" in capsys.readouterr().err
