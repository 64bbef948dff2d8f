"""A small job for the tests of the training machinery: next-token bigram model."""

import dataclasses
import hashlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from config_changes import change

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.config.model_fields import free, sized
from etc_jax.training.job import Job
from etc_jax.training.run import train_and_evaluate

NAME = "toy_bigram"
EVAL_BATCHES = 2


@registry.register("model_config", NAME)
@dataclasses.dataclass(frozen=True)
class ToyConfig:
    """Sizes of the toy, with the names that sharding checks know."""

    vocab_size: int = sized(32)
    embed_dim: int = sized(16)
    mlp_dim: int = sized(32)
    num_heads: int = sized(8)
    dropout_rate: float = free(0.1)
    length: int = free(8)
    poison_from: int | None = free(None)
    poison_to: int | None = free(None)
    dtype: str = sized("float32")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.embed_dim < 1:
            yield "embed_dim", f"is {self.embed_dim}; expected at least 1"


def init_params(c: ToyConfig, rng: jax.Array):
    keys = jax.random.split(rng, 4)
    normal = lambda k, *shape: 0.3 * jax.random.normal(k, shape, c.dtype)  # noqa: E731
    heads, head_dim = c.num_heads, c.embed_dim // c.num_heads or 1
    return {
        "token_embedder": {"embedding": normal(keys[0], c.vocab_size, c.embed_dim)},
        "long_query": {"kernel": normal(keys[1], c.embed_dim, heads, head_dim)},
        "mlp": {
            "wi": {"kernel": normal(keys[2], c.embed_dim, c.mlp_dim)},
            "wo": {
                "kernel": normal(keys[3], c.mlp_dim, c.embed_dim),
                "bias": jnp.zeros(c.embed_dim, c.dtype),
            },
        },
        "final_norm": {"scale": jnp.ones(c.embed_dim, c.dtype)},
    }


def loss_fn(c: ToyConfig, params, batch, rng, deterministic):
    tokens = batch["tokens"]
    table = params["token_embedder"]["embedding"]
    x = table[tokens[:, :-1]]
    q = jnp.einsum("ble,ehd->blhd", x, params["long_query"]["kernel"])
    x = x + q.reshape(*q.shape[:2], -1).mean(-1, keepdims=True)
    hidden = jax.nn.gelu(x @ params["mlp"]["wi"]["kernel"])
    if not deterministic and c.dropout_rate:
        keep = jax.random.bernoulli(rng, 1 - c.dropout_rate, hidden.shape)
        hidden = jnp.where(keep, hidden / (1 - c.dropout_rate), 0)
    out = params["mlp"]["wo"]
    x = x + hidden @ out["kernel"] + out["bias"][None, None]
    x = x * params["final_norm"]["scale"][None, None]
    logits = jnp.einsum("ble,ve->blv", x, table).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    losses = (jax.nn.logsumexp(logits, axis=-1) - picked) * batch["scale"][:, None]
    mean_over_tokens = losses.sum(), jnp.float32(losses.size)
    return {"loss": mean_over_tokens, "tokens": mean_over_tokens}


def rows_at(c: ToyConfig, step: int, rows: np.ndarray):
    """Row r of step s is a function of (s, r) alone; tokens count upwards by 3."""
    start = np.array([np.random.default_rng([step, r]).integers(1 << 20) for r in rows])
    tokens = (start[:, None] + 3 * np.arange(c.length)) % c.vocab_size
    bad = c.poison_from is not None and c.poison_from <= step < c.poison_to
    scale = np.full(len(rows), np.nan if bad else 1.0, np.float32)
    return {"tokens": tokens.astype(np.int32), "scale": scale}


def check_batch(c: ToyConfig, batch) -> list[str]:
    worst = batch["tokens"].max()
    if worst < c.vocab_size:
        return []
    return [f"token id {worst} >= vocab_size {c.vocab_size}"]


@registry.register("objective", NAME)
def make_job(config, workdir) -> Job:
    del workdir
    c, size = config.model, config.train.batch_size
    return Job(
        init_params=lambda rng: init_params(c, rng),
        loss_fn=lambda *args: loss_fn(c, *args),
        train_batch=lambda step, rows: rows_at(c, step, rows),
        eval_batches=lambda rows: (
            rows_at(c, 10**6 + i, rows) for i in range(EVAL_BATCHES)
        ),
        tokens_per_step=size * c.length,
        check_batch=lambda batch: check_batch(c, batch),
        final_report=lambda params: {
            "table_rows": params["token_embedder"]["embedding"].shape[0]
        },
    )


def config_dict(**changes):
    """A `ConfigDict` of a short run; changes as `train__num_steps=3`."""
    cfg = config_lib.default_config(NAME)
    cfg.objective.name = NAME
    cfg.data.vocab_size = 32
    cfg.optimizer.learning_rate = 0.01
    cfg.schedule.warmup_steps = 2
    cfg.train.num_steps = 12
    cfg.train.log_every_steps = 1
    cfg.train.eval_every_steps = 6
    cfg.checkpoint.every_steps = 4
    change(cfg, changes)
    return cfg


def config(**changes):
    """The same as a `Config`."""
    return config_lib.from_config_dict(config_dict(**changes))


def digest(state) -> str:
    """sha256 of every bit of a train state."""
    sha = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        sha.update(jax.tree_util.keystr(path).encode())
        sha.update(np.asarray(leaf).tobytes())
    return sha.hexdigest()


def long_config():
    """Of a run that saves at every step, for tests that kill it."""
    every_step = {"train__num_steps": 16, "checkpoint__every_steps": 1}
    return config(**every_step, train__eval_every_steps=100)


def long_run(workdir: str) -> None:
    train_and_evaluate(long_config(), workdir)
