"""Model-based denoising through the training loop: batches, starts, what is kept."""

import dataclasses
import types

import jax
import numpy as np
import pytest
import tiny_text
import toy_seq2seq
from config_changes import changed
from denoising_runs import FIRST, INPUT, ROWS, TARGET, check_batches, values_of
from training_runs import lines, state_at_start

import etc_jax
from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models import useful_flops
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.prediction.export import export_run
from etc_jax.training import errors
from etc_jax.training.checkpoints.saved_params import read_params
from etc_jax.training.errors import UserError
from etc_jax.training.job import HELPERS
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
SIZES = {
    "vocab_size": FIRST,
    "embed_dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 8,
    "max_length": INPUT,
}
GENERATOR = RobertaConfig(**SIZES)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model_denoising")
    tiny_text.write_rows(folder / "rows.jsonl", count=20)
    return folder


@pytest.fixture(scope="module")
def trained(home):
    """The folder of a generator, with a pooler, which the generator does not have."""
    tokens = np.zeros((1, 1), np.int32)
    module = EncoderForMaskedLm(GENERATOR, with_pooler=True)
    params = module.init(jax.random.key(5), tokens)["params"]
    folder = home / "generator"
    native.save(folder, params, GENERATOR, {})
    return folder, params


def config_of(home, *, name="model_denoising", family=toy_seq2seq.NAME, **changes):
    values = values_of(home, family, name)
    values.objective.share = 0.15
    if name == "model_denoising":
        values.objective.update(kept_share=0.4, generator_family="roberta")
        del values.objective["generator"]
        values.objective.generator = dataclasses.asdict(GENERATOR)
    values.train.update(num_steps=2, log_every_steps=6, eval_every_steps=2)
    values.train.eval_steps = 2
    return changed(values, changes)


def frozen(home, trained, **changes):
    given = {
        "objective__generator_weight": 0.0,
        "objective__generator_init_from": str(trained[0]),
    }
    return config_of(home, **{**given, **changes})


def test_batches_fit_their_model_and_are_functions_of_the_step(home, tmp_path):
    config = config_of(home, objective__begin_token=True)
    job = registry.lookup("objective", "model_denoising")(config, tmp_path)
    batch = check_batches(job)
    assert (batch["tokens"] < FIRST).all() and (batch["kept_spans"] > 0).all()
    assert job.tokens_per_step == ROWS * (INPUT + TARGET)
    # Another epoch has other candidates.
    later = job.train_batch(int(np.ceil(job.steps_per_epoch)), np.arange(ROWS))
    assert not np.array_equal(later["span_ids"], batch["span_ids"])


@pytest.mark.full
def test_useful_flops_are_those_of_both_models(home, trained, tmp_path):
    make = registry.lookup("objective", "model_denoising")
    # A family whose own are known.
    sizes = {k: x for k, x in SIZES.items() if k != "vocab_size"}
    bart = {f"model__{k}": x for k, x in sizes.items()} | {"family": "bart"}
    job = make(config_of(home, **bart), tmp_path)
    batch = job.train_batch(0, np.arange(ROWS))
    once = make(frozen(home, trained, **bart), tmp_path).useful_flops(batch)
    own = useful_flops.of_step(
        GENERATOR,
        "roberta",
        SequenceInputs(batch["example_ids"]),
        masked_logits=float((batch["span_ids"] > 0).sum()),
    )
    assert job.useful_flops(batch) - once == pytest.approx(own * 2 / 3)
    assert once > own / 3


@pytest.mark.full
@pytest.mark.usefixtures("one_device")
def test_a_joint_run_trains_both_models(home, tmp_path):
    run = tmp_path / "run"
    config = config_of(home, train__num_steps=12, train__eval_every_steps=6)
    assert train_and_evaluate(config, run).exit_code == errors.DONE
    first, last = lines(run, "eval")
    assert last["loss"] == pytest.approx(last["seq2seq_loss"] + last["mlm_loss"])
    assert last["mlm_loss"] < first["mlm_loss"]
    assert last["seq2seq_loss"] < first["seq2seq_loss"]
    assert last["kept_loss"] > last["candidate_loss"]


@pytest.fixture
def decoder_of_the_toy(monkeypatch):
    """A writer needs one, even where nothing is written."""
    decoder = types.SimpleNamespace(check=lambda length: None, encode=None)
    table = registry._TABLES.setdefault("decoder", {})
    monkeypatch.setitem(table, toy_seq2seq.NAME, lambda config: decoder)


@pytest.mark.usefixtures("one_device", "decoder_of_the_toy")
@pytest.mark.full
def test_a_frozen_generator_is_that_of_its_folder_and_not_part_of_the_model(
    home, trained, tmp_path
):
    config = frozen(home, trained, objective__begin_token=True)
    state = train_and_evaluate(config, tmp_path / "run").state
    params = flatten(jax.device_get(state.params))
    below = f"{HELPERS}/generator/"
    generator = {k.removeprefix(below): x for k, x in params.items() if below in k}
    written = {k: x for k, x in params.items() if below not in k}
    # After two steps it is as it was, and no moments of it are in memory.
    folder = flatten(trained[1])
    for path, array in generator.items():
        np.testing.assert_array_equal(array, folder[path])
    assert folder.keys() - generator.keys() == {
        "encoder/pooler/bias",
        "encoder/pooler/kernel",
    }
    moments = [x for x in jax.tree.leaves(state.opt_state) if x.shape]
    assert len(moments) == 2 * len(written)
    # What is read of the run is the encoder-decoder.
    saved = read_params(tmp_path / "run")
    assert flatten(saved.params).keys() == written.keys()
    writer = etc_jax.load(tmp_path / "run").writer()
    assert flatten(writer.params).keys() == written.keys() and writer.pairs.begin_token
    export_run(tmp_path / "run", tmp_path / "exported")
    exported = flatten(native.load(tmp_path / "exported").params)
    assert exported.keys() == written.keys()
    for path, array in exported.items():
        np.testing.assert_array_equal(array, written[path])
    # Another objective begins with it, and nothing need be left out by hand.
    again = config_of(
        home, name="denoising", checkpoint__init_from=str(tmp_path / "run")
    )
    begun = state_at_start(again, tmp_path / "again").params
    begun = flatten(jax.device_get(begun))
    assert begun.keys() == written.keys()
    for path, array in begun.items():
        np.testing.assert_array_equal(array, written[path])


def test_the_fields_of_a_family_go_with_it(home):
    values = config_lib.to_dict(config_of(home))
    values["objective"].pop("generator")
    with pytest.raises(ValueError, match="is a LongformerConfig, but .* is 'roberta'"):
        config_lib.from_config_dict(values)
    assert config_lib.from_json(config_lib.to_json(config_of(home))) == config_of(home)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"objective__generator_weight": 0.0},
            "generator_init_from: is not given, but",
        ),
        (
            {"objective__generator_weight": -1.0},
            "generator_weight: is -1.0; expected 0 or more",
        ),
        ({"objective__kept_share": 1.0}, "kept_share: is 1.0; expected a number in"),
        (
            {"objective__share": 0.4},
            "kept_share: is 0.4, but the candidates are .* = 1 ",
        ),
        ({"objective__global_tokens": 1}, "global_tokens: is 1, but rows of this"),
        ({"objective__generator_family": "roberto"}, "generator_family: no masked lm "),
        ({"objective__generator_family": "bart"}, "generator_family: no masked lm "),
        ({"objective__generator_family": "bert"}, "generator.pad_id: unknown key"),
        ({"objective__generator__num_heads": 3}, "generator.num_heads: 3 does not div"),
        (
            {"objective__generator__vocab_size": 9},
            "objective.generator.vocab_size: is 9, less than data.vocab_size = 180",
        ),
        (
            {"objective__generator__max_length": 9},
            "objective.generator.max_length: is 9, less than data.input_length = 64",
        ),
    ],
)
def test_a_config_that_cannot_be_is_refused(home, changes, message):
    with pytest.raises(ValueError, match=message):
        config_of(home, **changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"activation": "relu"}, "objective.generator.activation: 'gelu_exact' there"),
        ({"embed_dim": 10}, "objective.generator.embed_dim: 8 there, 10 here"),
        (
            {"family": "bert"},
            "objective.generator_family: 'roberta' there, 'bert' here",
        ),
    ],
)
@pytest.mark.usefixtures("one_device")
def test_a_folder_of_another_generator_is_refused(
    home, trained, tmp_path, changes, message
):
    family = changes.get("family", "roberta")
    made = {"bert": BertConfig, "roberta": RobertaConfig}[family](
        **SIZES | {k: x for k, x in changes.items() if k != "family"}
    )
    config = frozen(
        home,
        trained,
        objective__generator_family=family,
        objective__generator=dataclasses.asdict(made),
    )
    with pytest.raises(UserError, match=message):
        train_and_evaluate(config, tmp_path / "run")
