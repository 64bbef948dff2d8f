"""A BART that was given sentinels learns spans, and its run can be stopped anywhere."""

import dataclasses

import numpy as np
import pytest
import tiny_text
from denoising_runs import END, values_of
from random_encoder_decoders import random_params
from training_runs import check_stops, compiled_once, losses

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.data.text.denoised import sentinels_of
from etc_jax.data.tokenizers.tokenizer import open_tokenizer, train
from etc_jax.models.bart.config import BartConfig

pytest.importorskip("nupunkt")

ROWS, STEPS, SENTINELS = 8, 12, 8
BART = BartConfig(
    vocab_size=tiny_text.VOCAB_SIZE,
    embed_dim=16,
    num_heads=2,
    mlp_dim=16,
    num_layers=1,
    num_decoder_layers=1,
    max_length=64,
    # [PAD] and [SEP] of a vocabulary that is learnt.
    pad_id=0,
    eos_id=END,
    decoder_start_id=END,
)
# The first step, after checkpoints and between them, and beside an epoch's edge.
STOPS = (1, 4, 6, 7, 11)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Text, and a BART of Hugging Face with sentinels after its own vocabulary."""
    folder = tmp_path_factory.mktemp("denoising")
    tiny_text.write_rows(folder / "rows.jsonl", 24)
    texts = tiny_text.LEXICON * 9
    vocabulary = train(texts, vocab_size=BART.vocab_size, min_char_count=1)
    pieces = vocabulary.pieces(range(vocabulary.vocab_size))
    files = {
        "vocab.txt": "".join(f"{piece}\n" for piece in pieces).encode(),
        "tokenizer_config.json": b'{"tokenizer_class": "BertTokenizer"}',
    }
    hugging_face.save(folder / "bart", random_params(BART, 0), BART, files=files)
    command = ["grow", f"--from={folder}/bart", f"--out={folder}/grown"]
    assert convert.main([*command, f"--sentinels={SENTINELS}"]) == 0
    return folder


@pytest.fixture
def config(home, one_device):
    values = values_of(home, "bart")
    model = native.read_config(home / "grown")
    values.model.update(dataclasses.asdict(model))
    values.objective.share = 0.2
    values.data.update(tokenizer=str(home / "grown"), vocab_size=model.vocab_size)
    values.train.update(batch_size=ROWS, num_steps=STEPS, log_every_steps=1)
    values.train.eval_every_steps = STEPS
    values.checkpoint.update(every_steps=3, init_from=str(home / "grown"))
    return config_lib.from_config_dict(values)


def test_a_grown_vocabulary_has_the_sentinels_of_batches(home, config, tmp_path):
    tokenizer = open_tokenizer(home / "grown")
    rows = config.model.vocab_size
    sentinels = sentinels_of(tokenizer, rows)
    assert sentinels == tuple(range(BART.vocab_size, rows)) and rows == 188
    job = registry.lookup("objective", "denoising")(config, tmp_path)
    batch = job.train_batch(0, np.arange(ROWS))
    for row in range(ROWS):
        read, written = batch["input_tokens"][row], batch["target_tokens"][row]
        marks = [side[side >= BART.vocab_size].tolist() for side in (read, written)]
        assert marks[0] == marks[1] == list(sentinels[: len(marks[0])]) != []
    # Among the stops are some on both sides of an epoch's edge.
    assert min(STOPS) < job.steps_per_epoch < max(STOPS)


@pytest.mark.full
def test_a_run_that_is_stopped_five_times_is_the_uninterrupted_one(config, tmp_path):
    with compiled_once():
        check_stops(config, tmp_path, STOPS)
    losses_of = losses(tmp_path / "whole")
    assert losses_of[STEPS] < losses_of[1]
