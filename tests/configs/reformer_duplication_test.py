"""Table 2 of the Reformer paper: a model is evaluated with another attention."""

import functools

import jax
import numpy as np
import pytest

from etc_jax.cli import train
from etc_jax.data.bytes.duplication import DuplicationReader
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.training.checkpoints.saved_params import read_params
from etc_jax.training.reporting.metrics import evaluations

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

# Of the model, beside its attention.
TINY = (
    *("--config.model.embed_dim=16", "--config.model.mlp_dim=16"),
    *("--config.model.max_length=64", "--config.data.input_length=64"),
    *("--config.model.vocab_size=8", "--config.data.vocab_size=8"),
    *("--config.model.num_buckets=(8,)", "--config.train.seed=1"),
)
WHOLE, CHUNKS = (f"--config.model.lsh_chunk_length={n}" for n in (64, 8))
COLUMNS = {"full": "full", "8": "lsh8", "4": "lsh4", "2": "lsh2", "1": "lsh1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a model with full attention that answers by what it sees, if not rightly."""
    folder = tmp_path_factory.mktemp("full") / "run"
    given = (*TINY, WHOLE, "--config.train.num_steps=0")
    given += ("--config.model.initializer_range=1.0",)
    config = "--config=reformer_duplication:full,short"
    assert train.main([config, f"--workdir={folder}", *given]) == 0
    return folder


def evaluated(folder, out, variants, *more):
    """(exit code, metrics line) of the command."""
    argv = [f"--config=reformer_duplication:{variants}", f"--workdir={out}"]
    code = train.main([*argv, f"--config.checkpoint.init_from={folder}", *TINY, *more])
    return code, evaluations(out)[-1] if code == 0 else None


def config_of(variants, *more):
    given = (f"--config=reformer_duplication:{variants},short", *TINY, *more)
    return train.config_of([*given, "--print_config"])


@functools.cache
def accuracy(folder, column):
    """Percent of the second half's symbols, counted over 512 rows without a run."""
    params = jax.tree.map(np.asarray, read_params(folder).params)
    config = config_of(COLUMNS[column], WHOLE if column == "full" else CHUNKS)
    reader = DuplicationReader(
        length=config.data.input_length,
        num_symbols=config.data.vocab_size,
        batch_size=32,
        seed=config.train.seed,
        evaluation=True,
    )
    lm, sums = ReformerLm(config.model), np.zeros(2)
    hits_fn = jax.jit(functools.partial(lm.apply, method=lm.losses))
    for step in range(16):
        batch = reader.batch_at(step)
        _, hits = hits_fn({"params": params}, batch["tokens"], batch["targets"])
        weights = batch["target_weights"]
        sums += (np.asarray(hits) * weights).sum(), weights.sum()
    return 100 * sums[0] / sums[1]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.full(but=["full", "8"])
def test_a_column_is_a_run_of_no_steps(folder, tmp_path, column):
    """Of 512 rows and the hashes of the config."""
    variants = f"as_it_is,{COLUMNS[column]},short"
    chunks = WHOLE if column == "full" else CHUNKS
    code, line = evaluated(folder, tmp_path / "run", variants, chunks)
    assert code == 0 and line["step"] == 0
    assert 100 * line["accuracy"] == pytest.approx(accuracy(folder, column), rel=1e-6)
    if column != "full":
        assert accuracy(folder, column) != accuracy(folder, "full")


def test_rounds_by_flag(folder, tmp_path, capsys):
    """Of a config without `as_it_is`, another value is meant or refused."""
    given = ("full,short", "--config.train.num_steps=0", "--config.model.num_hashes=2")
    given += (CHUNKS, "--config.train.batch_size=32", "--config.train.eval_steps=16")
    assert evaluated(folder, tmp_path / "refused", *given)[0] == 2
    said = capsys.readouterr().err
    assert "model.num_hashes" in said and "--override_model" in said
    code, line = evaluated(folder, tmp_path / "run", *given, "--override_model")
    assert code == 0
    assert 100 * line["accuracy"] == pytest.approx(accuracy(folder, "2"), rel=1e-6)


def test_without_a_model_it_is_refused(tmp_path, capsys):
    argv = ["--config=reformer_duplication:as_it_is,lsh8", f"--workdir={tmp_path}"]
    assert train.main(argv) == 2
    assert "init_from" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
