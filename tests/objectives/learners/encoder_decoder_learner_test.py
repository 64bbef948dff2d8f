"""Data sets of texts to be written, learnt by encoder-decoders."""

import dataclasses

import causal_pairs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_seq2seq
from causal_pairs import PIECES, prepared
from mean_loss import loss_of

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.config.kinds import section_of
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.pairs import Pair
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.learners.causal_text_to_text import CausalTextToText
from etc_jax.objectives.learners.text_to_text import EncoderDecoderTextToText
from etc_jax.objectives.sections import TextToTextConfig
from etc_jax.objectives.seq2seq import Seq2Seq

TOY = toy_seq2seq.ToySeq2SeqConfig()
CAUSAL = LongformerConfig(causal=True)
BATCH = {**causal_pairs.BATCH, "weights": np.float32([1, 1])}


def learner(model=TOY, **options):
    section = TextToTextConfig("text_to_text", **options)
    return finetuning.find(model, section, "text_to_text")


# --- which learner --------------------------------------------------------------------


def test_the_model_decides_which_learner_it_is():
    task = task_lib.find_task("text_to_text")
    assert type(learner()) is EncoderDecoderTextToText
    for model, kind in ((TOY, EncoderDecoderTextToText), (CAUSAL, CausalTextToText)):
        assert finetuning.learner_of(task, model) is kind
        assert section_of("text_to_text", None, type(model)) is kind.section
    assert finetuning.learner_of(task) is CausalTextToText


def test_families_are_those_that_register_a_module():
    assert toy_seq2seq.ToySeq2SeqConfig in EncoderDecoderTextToText.takes()
    taken = {type(x).__name__ for x in (TOY, CAUSAL)}
    assert not {x.__name__ for x in CausalTextToText.takes()} & taken - {
        "LongformerConfig"
    }
    with pytest.raises(ValueError, match="format 'text_to_text', but Bert takes seque"):
        finetuning.find(BertConfig(), TextToTextConfig("text_to_text"), "text_to_text")


def values_of(family, **model):
    values = config_lib.default_config(family)
    values.model.update(vocab_size=len(PIECES), **model)
    values.objective.update(name="text_to_text", label_smoothing=0.1)
    values.data.update(source="windows", paths=("a",), validation_paths=("b",))
    values.data.update(format="text_to_text", vocab_size=len(PIECES))
    return values


def test_a_config_has_the_options_of_the_learner():
    config = config_lib.from_config_dict(values_of(toy_seq2seq.NAME))
    assert config.objective == TextToTextConfig("text_to_text", label_smoothing=0.1)
    assert config_lib.from_json(config_lib.to_json(config)) == config
    assert finetuning.of_config(config).objective.label_smoothing == 0.1
    with pytest.raises(
        config_lib.ConfigError, match="label_smoothing: is 0.1, but .*d"
    ):
        config_lib.from_config_dict(values_of("longformer", causal=True))


# --- loss and outputs -----------------------------------------------------------------


def test_the_loss_is_that_of_the_targets_alone():
    made = learner()
    params = jax.jit(made.init)(jax.random.key(0))
    module, read = toy_seq2seq.ToySeq2Seq(TOY), [[0, 11, 12, 0], [0, 13, 0, 0]]
    ids = (BATCH["input_example_ids"], np.int32(BATCH["target_weights"]))

    @jax.jit
    def both(params):
        loss, sums = loss_of(made)(params, BATCH, None, True)
        logits = module.apply(
            {"params": params}, BATCH["input_tokens"], np.int32(read), *ids
        )
        return loss, sums["loss"][1], jax.nn.log_softmax(logits)

    loss, count, log_p = both(params)
    learnt = [(0, 0, 11), (0, 1, 12), (0, 2, 3), (1, 0, 13), (1, 1, 3)]
    assert count == len(learnt)
    want = -np.mean([log_p[place] for place in learnt])
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    assert made.problems(BATCH) == []
    inputs, targets = made.flops_inputs(BATCH)
    assert (inputs.example_ids.sum(), targets.example_ids.sum()) == (8, 5)


def test_the_first_tokens_are_global_where_it_is_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr(Seq2Seq, "loss", lambda self, p, batch, *_: seen.append(batch))
    learner(global_tokens=4).loss({}, BATCH, None, True)
    learner().loss({}, BATCH, None, True)
    assert seen[0]["global_index"].tolist() == [[0, 1, 2, -1], [0, 1, 2, 3]]
    inputs, _ = learner(global_tokens=2).flops_inputs(BATCH)
    assert inputs.global_index.tolist() == [[0, 1], [0, 1]]
    assert "global_index" not in seen[1]


def test_a_question_is_global_and_the_padding_behind_it_is_not():
    """With as many global places as a prefix has of its own: SLED's LED."""
    task = task_lib.find_task("text_to_text")
    task = task.with_options({"begin_token": True, "prefix_length": 6})
    records = [
        Pair("a", "the colour is red", "red", "which colour"),
        Pair("b", "the colour is red", "red", "the the the the the the"),
        Pair("c", "the colour is red", "red"),
    ]
    windows = [task.features(x, WordPieceTokenizer(PIECES))[0] for x in records]
    batch = {"input_example_ids": np.stack([x.input_example_ids for x in windows])}
    index = learner(global_tokens=6)._global_index(batch)
    # [CLS], the words, [SEP]; the second one is cut.
    assert index.tolist() == [
        [0, 1, 2, 3, -1, -1],
        [0, 1, 2, 3, 4, 5],
        [-1] * 6,
    ]


def test_without_a_decoder_there_are_no_outputs_yet():
    made = learner()
    message = "family 'toy_seq2seq' cannot generate yet: .*no decoder of theirs is reg"
    assert made.why_no_outputs
    with pytest.raises(ValueError, match=message):
        made.outputs({}, BATCH)
    causal = learner(dataclasses.replace(CAUSAL, attention_window=(8,)))
    assert causal.why_no_outputs is None


@dataclasses.dataclass(frozen=True)
class Counting:
    """Writes the input's length, then numbers counting up."""

    config: toy_seq2seq.ToySeq2SeqConfig

    def check(self, length):
        pass

    def encode(self, params, tokens, ids, index):
        assert index is None
        return ids.sum(axis=1)

    def prefill(self, params, tokens, lengths, length, memory):
        assert tokens.shape == (2, 1)
        return self._logits(memory), memory

    def step(self, params, cache, token):
        return self._logits(token + 1), cache

    def _logits(self, ids):
        return jax.nn.one_hot(ids, self.config.vocab_size)


def test_the_decoder_of_the_family_is_used_where_there_is_one(monkeypatch):
    monkeypatch.setitem(
        registry._TABLES.setdefault("decoder", {}), toy_seq2seq.NAME, Counting
    )
    made = learner()
    assert made.why_no_outputs is None
    got = made.outputs({}, jax.tree.map(jnp.asarray, BATCH))
    # The first one ends at once: 3 is the token that ends a text.
    assert got.tolist() == [[3, 0, 0, 0], [5, 6, 7, 8]]


# --- windows --------------------------------------------------------------------------


def test_texts_begin_with_the_first_token_where_it_is_asked_for():
    tokenizer, task = WordPieceTokenizer(PIECES), task_lib.find_task("text_to_text")
    first, end = tokenizer.special_id("cls"), tokenizer.special_id("sep")
    record = Pair("a", "the colour is red", "red")
    for begin, lead in ((False, []), (True, [first])):
        made = task.with_options({"begin_token": begin})
        [window] = made.features(record, tokenizer)
        red = PIECES.index("red")
        assert window.target_tokens[: len(lead) + 2].tolist() == [*lead, red, end]
        assert window.input_tokens[: len(lead) + 1].tolist()[:-1] == lead
        assert window.target_weights.sum() == len(lead) + 2
    assert task.options.begin_token is False


def test_a_run_that_cannot_answer_is_refused_before_it_compiles(tmp_path):
    lengths = ("--input_length=12", "--target_length=6", "--begin_token")
    prepared(tmp_path, *lengths, train=16, dev=16)
    options = WindowCache.open(tmp_path / "dev").input_options
    assert options == ("begin_token=true",)
    values = values_of(toy_seq2seq.NAME)
    values.data.update(
        paths=(str(tmp_path / "train"),),
        validation_paths=(str(tmp_path / "dev"),),
        input_length=12,
        target_length=6,
        input_options=options,
    )
    make = registry.lookup("objective", "data_set")
    job = make(config_lib.from_config_dict(values), tmp_path)
    batch = job.train_batch(0, np.arange(8))
    assert job.check_batch(batch) == []
    assert (batch["target_tokens"][:, 0] == PIECES.index("[CLS]")).all()
    values.data.validation_files = (str(tmp_path / "dev.jsonl"),)
    with pytest.raises(
        ValueError, match="data.validation_files are to be answered, but"
    ):
        make(config_lib.from_config_dict(values), tmp_path)
