"""From a CoNLL file to a trained head to a response file with all clusters right."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from coreference_samples import MILL, TON, conll_2012, write_text
from flax import linen as nn
from multihop_samples import tokenizer

from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.coreference import SpanPairHead, SpanPairs
from etc_jax.objectives.losses.coreference import marginal_loss
from etc_jax.scoring import coreference
from etc_jax.tasks.coreference import read
from etc_jax.tasks.coreference.decoding import decode
from etc_jax.tasks.coreference.inputs import features
from etc_jax.tasks.coreference.writing import write

NUM_CANDIDATES = 30
STEPS = 120


class TableWithHead(nn.Module):
    """A vector a token in place of an encoder."""

    @nn.compact
    def __call__(self, tokens, first, last, mask, num_words) -> SpanPairs:
        rows = nn.Embed(tokenizer().vocab_size, 12, name="table")(tokens.reshape(-1))
        head = SpanPairHead(
            ffnn_dim=24,
            feature_dim=4,
            max_tokens=6,
            # All spans and pairs: so few documents would never bring back a mention
            # that is not kept at the beginning.
            top_ratio=3.0,
            max_antecedents=NUM_CANDIDATES,
            name="head",
        )
        return head(rows, first, last, mask, num_words)


MODEL = TableWithHead()


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    text = conll_2012(MILL) + conll_2012(TON, part="001")
    return list(read(write_text(tmp_path_factory.mktemp("conll"), text)))


def batches(records):
    """(arguments of the model, clusters, candidates) of each document, of one shape."""
    for record in records:
        made = features(
            record, tokenizer(), SequenceSizes(input_length=9, global_length=1)
        )
        tokens = np.zeros((3, 9), np.int32)
        tokens[: len(made.tokens)] = made.tokens
        found = made.candidates(3, max_tokens=6).padded(NUM_CANDIDATES)
        assert found.unreachable == 0
        x = (tokens, found.first_tokens, found.last_tokens, found.mask, made.num_words)
        yield x, found.clusters, found


@jax.jit
def step(params, x, clusters):
    def loss(params):
        pairs = MODEL.apply({"params": params}, *x)
        total, number = marginal_loss(pairs, clusters)
        return total / number, pairs

    (value, pairs), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    return value, gradient, pairs


@pytest.mark.full
def test_descent_finds_the_clusters_of_two_documents(records, tmp_path):
    data = list(batches(records))
    shapes = jax.eval_shape(MODEL.init, jax.random.key(0), *data[0][0])["params"]
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda a: jnp.float32(0.2 * rng.normal(size=a.shape)), shapes)
    optimizer = optax.adam(0.01)
    moments = optimizer.init(params)
    update = jax.jit(optimizer.update)
    values = []
    for _ in range(STEPS):
        found = [step(params, x, clusters) for x, clusters, _ in data]
        values.append(sum(float(value) for value, _, _ in found))
        gradient = jax.tree.map(lambda *g: sum(g), *(g for _, g, _ in found))
        updates, moments = update(gradient, moments)
        params = optax.apply_updates(params, updates)
    assert values[-1] < 0.1 * values[0]
    path = tmp_path / "response"
    write(predictions(records, data, params), records, path)
    response = {record.id: record.clusters for record in read(path)}
    # Clusters of one mention cannot be found by links.
    gold = {r.id: [c for c in r.clusters if len(c) > 1] for r in records}
    figures = coreference.score(gold, response).metrics
    assert figures["conll_f1"] == 1.0


def predictions(records, data, params):
    found = {}
    for record, (x, clusters, candidates) in zip(records, data, strict=True):
        pairs = jax.tree.map(np.asarray, step(params, x, clusters)[2])
        found[record.id] = decode(pairs, candidates)
    return found
