"""Mistakes in text, token caches, tokenizers and batches."""

import json

import jax.numpy as jnp
import numpy as np
from bad_input_bench import Bench, mistakes
from tiny_text import VOCAB_SIZE

from etc_jax.objectives.jobs import pretraining as pretraining_job
from etc_jax.objectives.losses import mlm

MISTAKES, mistake, plain = mistakes()
spoilt_by = plain(Bench.put)
of_text = plain(Bench.text)

spoilt_by(
    1,
    "a token id beyond the vocabulary, in a batch",
    "long_tokens holds ids from 0 to 32100",
    "model.vocab_size is 180",
    "tokenizer and config differ",
    long_tokens=32100,
)


@mistake(
    1,
    "a token id beyond the vocabulary, in a token cache",
    "tokens.npy holds id 32100",
    "has 180 ids",
    "tokenise the text again",
)
def _(bench):
    def change(folder):
        tokens = np.load(folder / "tokens.npy")
        tokens[5] = 32100
        np.save(folder / "tokens.npy", tokens)

    return bench.tampered_cache(change)


spoilt_by(
    2,
    "a negative token id",
    "global_tokens holds ids from -1",
    "model.vocab_size is 180",
    global_tokens=-1,
)
spoilt_by(
    3,
    "a label of -100",
    "mlm_targets holds ids from -100",
    "weight 0 in mlm_weights",
    mlm_targets=-100,
)
spoilt_by(
    4,
    "a label beyond the classes",
    "mlm_targets holds ids",
    "to 180",
    "model.vocab_size is 180",
    mlm_targets=VOCAB_SIZE,
)


@mistake(5, "a batch with nothing to predict", "the loss is 0")
def _(bench):
    logits = jnp.zeros((2, 3, 7))
    ids, weights = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    losses, hits, places = mlm.masked_lm(logits, ids, weights)
    loss = losses / jnp.maximum(places, 1)
    assert float(loss) == float(hits) == 0.0
    return "(allowed) the loss is 0, not NaN"


@mistake(
    7,
    "uint16 tokens of a vocabulary of 70,000",
    "tokens are uint16",
    "70000",
    "tokenise the text again",
)
def _(bench):
    def change(folder):
        header = json.loads((folder / "header.json").read_text())
        header["vocab_size"] = 70_000
        (folder / "header.json").write_text(json.dumps(header))

    return bench.tampered_cache(change)


of_text(
    8,
    "sentences longer than what is left of them",
    "100.0% of the sentences",
    "data.max_sentence_tokens",
    "raise it",
    data__max_sentence_tokens=4,
)
of_text(
    8,
    "documents too short to be used",
    "has 13 sentences",
    "lower min_sentences",
    data__min_sentences=13,
)
of_text(
    8,
    "more masked tokens than places",
    "chosen for MLM has no room",
    "raise data.mlm_capacity",
    data__mlm_capacity=2,
)


@mistake(
    9,
    "a batch without an entry that the model reads",
    "lacks mlm_positions",
    "it has cpc_documents",
)
def _(bench):
    def spoil(batch):
        return {k: v for k, v in batch.items() if k != "mlm_positions"}

    return bench.spoilt(spoil)


@mistake(
    9,
    "rows without the field of the text",
    "rows.jsonl:1: no field 'text'",
    "there are 'body'",
    "set text_field",
)
def _(bench):
    return bench.text(data__text_field="text", data__cache_dir=str(bench.folder))


@mistake(15, "fewer source files than hosts", "none twice")
def _(bench):
    job = pretraining_job.make_job(bench.text_config(), bench.folder)
    whole = job.train_batch(0, np.arange(8))["long_tokens"]
    hosts = [job.train_batch(0, np.arange(i, i + 2)) for i in range(0, 8, 2)]
    np.testing.assert_array_equal(
        np.concatenate([batch["long_tokens"] for batch in hosts]), whole
    )
    assert len(np.unique(whole, axis=0)) == 8
    return (
        "(cannot happen) of one file, 4 hosts read 4 x 2 rows, none twice: rows are "
        "dealt out, not files"
    )


@mistake(
    16,
    "text that is not UTF-8",
    "latin1.jsonl",
    "no UTF-8, at most 0.10% may be",
    "convert it to UTF-8",
)
def _(bench):
    path = bench.folder / "latin1.jsonl"
    text = bench.rows.read_text().replace("e", "é")
    path.write_bytes(text.encode("latin-1"))
    return bench.text(data__paths=(str(path),))


@mistake(
    24,
    "a pattern that matches no file",
    "data.paths: no file matches '*.jsonl'",
    "correct the pattern",
)
def _(bench):
    return bench.text(data__paths=(str(bench.folder / "*.jsonl"),))


@mistake(
    26,
    "a tokenizer that is not there",
    "data.tokenizer: no tokenizer at",
    "expected vocab.txt",
)
def _(bench):
    return bench.text(data__tokenizer=str(bench.folder / "vocab.txt"))


@mistake(
    26,
    "a tokenizer file that is garbage",
    "vocab.txt is not a WordPiece vocabulary",
    "expected UTF-8",
)
def _(bench):
    path = bench.folder / "vocab.txt"
    path.write_bytes(bytes(range(256)) * 4)
    return bench.text(data__tokenizer=str(path))


@mistake(30, "a bad row of a JSONL file", "rows.jsonl:81: not JSON", "correct the line")
def _(bench):
    path = bench.folder / "rows.jsonl"
    path.write_text(bench.rows.read_text() + '{"body": "cut sho\n')
    return bench.text(data__paths=(str(path),))
