"""Teacher forcing, and the loss of encoder-decoders on packed rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_seq2seq
from mean_loss import loss_of

from etc_jax.objectives.seq2seq import Seq2Seq, shifted_right

AXES = ("input", "target")
CONFIG = toy_seq2seq.ToySeq2SeqConfig(decoder_start_id=2, pad_id=1)
# Rows of three pairs and of one; numbers of pairs below.
BATCH = {
    "input_tokens": np.int32(
        [[5, 6, 3, 7, 8, 9, 3, 10, 3, 0, 0], [11, 12, 13, 14, 3, 0, 0, 0, 0, 0, 0]]
    ),
    "input_example_ids": np.int32(
        [[1, 1, 1, 2, 2, 2, 2, 3, 3, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]]
    ),
    "target_tokens": np.int32([[20, 3, 21, 22, 3, 3, 0], [23, 24, 25, 3, 0, 0, 0]]),
    "target_example_ids": np.int32([[1, 1, 2, 2, 2, 3, 0], [1, 1, 1, 1, 0, 0, 0]]),
    "cut_tokens": np.int32([2, 0]),
}


def task(**options):
    return Seq2Seq(CONFIG, toy_seq2seq.ToySeq2Seq, **options)


@pytest.fixture(scope="module")
def params():
    return jax.jit(task().init)(jax.random.key(0))


@jax.jit
def measured(params, batch):
    """Loss and metrics as in evaluation."""
    return loss_of(task())(params, batch, None, True)


# --- teacher forcing ------------------------------------------------------------------


@pytest.mark.parametrize(
    "targets, example_ids, start_id, pad_id, want",
    [
        # As transformers' shift of [0, 5, 6, 2]: the end token moves to the front.
        ([[0, 5, 6, 2, 1, 1]], [[1, 1, 1, 1, 0, 0]], 2, 1, [[2, 0, 5, 6, 1, 1]]),
        # T5 begins with its padding.
        ([[7, 8, 1, 0]], [[1, 1, 1, 0]], 0, 0, [[0, 7, 8, 0]]),
        # Each packed example begins anew.
        (
            BATCH["target_tokens"],
            BATCH["target_example_ids"],
            2,
            1,
            [[2, 20, 2, 21, 22, 2, 1], [2, 23, 24, 25, 1, 1, 1]],
        ),
        # A row that is full.
        ([[4, 5, 3]], [[1, 1, 1]], 2, 0, [[2, 4, 5]]),
    ],
    ids=["bart", "t5", "packed", "full row"],
)
def test_each_example_begins_with_the_start_token(
    targets, example_ids, start_id, pad_id, want
):
    targets, example_ids = jnp.asarray(targets), jnp.asarray(example_ids)
    got = shifted_right(targets, example_ids, start_id=start_id, pad_id=pad_id)
    assert got.dtype == jnp.int32 and got.tolist() == want


@pytest.mark.torch
@pytest.mark.parametrize("start_id, pad_id", [(2, 1), (0, 0)])
def test_targets_are_shifted_as_by_transformers(start_id, pad_id):
    torch = pytest.importorskip("torch")
    from transformers.models.bart.modeling_bart import shift_tokens_right

    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 6)
    there = np.arange(9)[None] < lengths[:, None]
    targets = np.where(there, rng.integers(3, 40, (6, 9)), pad_id)
    got = shifted_right(
        jnp.asarray(targets),
        jnp.asarray(there.astype(np.int32)),
        start_id=start_id,
        pad_id=pad_id,
    )
    want = shift_tokens_right(torch.tensor(targets), pad_id, start_id).numpy()
    # In the padding, which has no loss, the peer has the last token of the target.
    np.testing.assert_array_equal(got, np.where(there, want, pad_id))


# --- loss -----------------------------------------------------------------------------


def pairs():
    """(input, target) of each pair of `BATCH`."""
    for row in range(2):
        for number in range(1, BATCH["target_example_ids"][row].max() + 1):
            where = {k: BATCH[f"{k}_example_ids"][row] == number for k in AXES}
            yield tuple(BATCH[f"{k}_tokens"][row][where[k]] for k in AXES)


def attended(params, x, keys, mask):
    size, names = x.shape[1], ("query", "key", "value", "out")
    q, k, v, out = (params[name]["kernel"].reshape(size, size) for name in names)
    weights = np.where(mask, np.exp(x @ q @ (keys @ k).T / np.sqrt(size)), 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return x + weights @ keys @ v @ out


def log_probabilities(params, inputs, target, noise=0.0):
    """float64 [targets, vocabulary] of one pair, in numpy; rows of inputs + noise."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    table, n, m = p["token_embedder"]["embedding"], len(inputs), len(target)
    x, y = table[inputs] + noise, table[[2, *target[:-1]]]
    memory = attended(p["encoder"]["attention"], x, x, np.ones((n, n), bool))
    y = attended(p["decoder"]["attention"], y, y, np.tri(m, dtype=bool))
    y = attended(p["decoder"]["cross_attention"], y, memory, np.ones((m, n), bool))
    logits = y @ table.T
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def test_packed_losses_are_those_of_each_pair_alone(params):
    read = shifted_right(
        BATCH["target_tokens"], BATCH["target_example_ids"], start_id=2, pad_id=1
    )

    def of_pairs(module):
        memory = module.encode(BATCH["input_tokens"], BATCH["input_example_ids"])
        made = module.factored_logits(memory, read, BATCH["target_example_ids"])
        return made.cross_entropy(BATCH["target_tokens"])

    apply = functools.partial(toy_seq2seq.ToySeq2Seq(CONFIG).apply, method=of_pairs)
    losses, hits = jax.jit(apply)({"params": params})
    real = BATCH["target_example_ids"] > 0
    want, right = [], []
    for inputs, target in pairs():
        log_p = log_probabilities(params, inputs, target)
        want += [-log_p[i, token] for i, token in enumerate(target)]
        right += (log_p.argmax(axis=-1) == target).tolist()
    np.testing.assert_allclose(np.asarray(losses)[real], want, rtol=1e-5)
    assert np.asarray(hits)[real].tolist() == right


def test_the_loss_is_the_mean_over_real_targets(params):
    loss, sums = measured(params, BATCH)
    want = []
    for inputs, target in pairs():
        log_p = log_probabilities(params, inputs, target)
        want += [-log_p[i, token] for i, token in enumerate(target)]
    np.testing.assert_allclose(loss, np.mean(want), rtol=1e-5)
    assert sums["loss"][1] == len(want) == 10  # end tokens are learnt, padding is not
    np.testing.assert_allclose(sums["bits"][0], sums["loss"][0] / np.log(2), rtol=1e-6)
    # Two tokens were cut off, 14 of inputs and 10 of targets were not.
    assert [float(x) for x in sums["cut_share"]] == [2, 26]


def test_global_tokens_reach_the_model(params):
    nowhere = {**BATCH, "global_index": np.full((2, 2), -1, np.int32)}
    first = {**BATCH, "global_index": np.int32([[0, 3], [0, -1]])}
    plain, none, some = (measured(params, x)[0] for x in (BATCH, nowhere, first))
    assert plain == none != some


def test_what_stands_in_padding_changes_nothing(params):
    padded = {
        f"{axis}_tokens": np.where(
            BATCH[f"{axis}_example_ids"] > 0, BATCH[f"{axis}_tokens"], 9
        )
        for axis in ("input", "target")
    }
    loss, sums = measured(params, BATCH)
    other, others = measured(params, {**BATCH, **padded})
    assert (loss, sums["accuracy"]) == (other, others["accuracy"])


def test_smoothing_and_z_loss_are_of_training_alone(params):
    made = [task(), task(label_smoothing=0.2), task(label_smoothing=0.2, z_loss=0.1)]

    @jax.jit
    def losses(params, rng):
        pairs = [
            [loss_of(x)(params, BATCH, rng, d)[0] for d in (True, False)] for x in made
        ]
        return jnp.asarray(pairs)

    evaluated, trained = np.asarray(losses(params, jax.random.key(1))).T
    assert evaluated[0] == evaluated[1] == evaluated[2] != trained[0]
    assert len(set(trained)) == 3 and trained[2] > trained[1]


def test_a_batch_of_padding_has_no_loss_and_no_gradient(params):
    nothing = {name: np.zeros_like(x) for name, x in BATCH.items()}
    made, rng = task(label_smoothing=0.1, z_loss=1e-4), jax.random.key(0)
    step = jax.value_and_grad(lambda p: loss_of(made)(p, nothing, rng, False)[0])
    loss, grads = jax.jit(step)(params)
    assert loss == 0
    assert all((np.asarray(g) == 0).all() for g in jax.tree.leaves(grads))
