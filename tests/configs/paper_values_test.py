"""What configs take from papers and their code, typed again: changes are deliberate."""

import jax
import pytest
from every_config_test import load, parameters_of

from etc_jax.config import kinds as config_kinds
from etc_jax.conversion.engine import flatten
from etc_jax.sharding import MeshConfig, make_mesh, tree_shardings

# Ainslie et al. 2020 (ETC): section 4.1 and appendix C, where not said otherwise.
# (config, variants): peak, batch, steps, warm-up. Warm-up of pre-training: a choice.
ETC = {
    ("etc_base_pretrain", ""): (8**0.5 * 1e-3, 512, 63_000, 6_300),
    ("etc_base_pretrain", "lifted"): (2e-3, 512, 63_000, 6_300),
    ("etc_base_pretrain", "8192"): (8**0.5 * 1e-3, 256, 63_000, 6_300),
    ("etc_large_pretrain", ""): (8**0.5 * 1e-3, 1024, 63_000, 6_300),
    ("etc_large_pretrain", "roberta_vocab"): (2e-3, 1024, 63_000, 6_300),
    # Best models: appendices C.1 to C.4; 10 % as in the official code.
    ("etc_base_hotpotqa", ""): (5e-5, 64, 90_431 * 9 // 64, 1_271),
    ("etc_base_nq", ""): (5e-5, 64, 307_373 * 3 // 64, 1_440),
    ("bert_base_nq", ""): (5e-5, 64, 307_373 * 3 // 64, 1_440),
    ("etc_base_wikihop", ""): (4e-5, 64, 43_738 * 15 // 64, 1_025),
    ("etc_base_openkp", ""): (5e-5, 64, 133_374 * 2 // 64, 416),
    ("etc_large_hotpotqa", ""): (3e-5, 32, 90_431 * 5 // 32, 1_412),
    ("etc_large_nq", ""): (3e-5, 64, 307_373 * 2 // 64, 960),
    ("etc_large_wikihop", ""): (5e-5, 64, 43_738 * 10 // 64, 683),
    ("etc_large_openkp", ""): (3e-5, 64, 133_374 * 2 // 64, 416),
}
# Beltagy et al. 2020 (Longformer), appendix; coreference: the rate of the head.
LONGFORMER = {
    ("longformer_wikihop", ""): (3e-5, 32, 43_738 * 15 // 32, 200),
    ("longformer_wikihop", "large"): (3e-5, 32, 43_738 * 15 // 32, 200),
    ("longformer_triviaqa", ""): (3e-5, 32, 61_888 * 5 // 32, 1_000),
    ("longformer_hotpotqa", ""): (5e-5, 32, 90_447 * 5 // 32, 1_000),
    ("longformer_classification", "imdb"): (3e-5, 32, 25_000 * 15 // 32, 1_171),
    ("longformer_classification", "hyperpartisan"): (3e-5, 32, 516 * 15 // 32, 24),
    ("longformer_coreference", ""): (1e-4, 1, 2_802 * 30, 8_406),
    # The authors' notebook convert_model_to_long.ipynb, and what it says of the paper.
    ("longformer_mlm", ""): (3e-5, 64, 3_000, 500),
    ("longformer_mlm", "65k"): (3e-5, 64, 65_000, 500),
}
# trax: reformer_enwik8.gin and reformer_imagenet64.gin of 2021; of the paper's time
# (8e2c6eb1) reformer_enwik8.gin and transformer_copy.gin. A constant over the root of
# the warm-up.
REFORMER = {
    ("reformer_enwik8", ""): (0.03125 / 2000**0.5, 8, 100_000, 2_000),
    ("reformer_enwik8", "paper"): (2 / 8000**0.5, 8, 60_000, 8_000),
    ("reformer_imagenet64", ""): (0.03125 / 8000**0.5, 8, 500_000, 8_000),
    # Length of training: Kitaev et al. 2020, section 5.1.
    ("reformer_duplication", "lsh4"): (1 / 8000**0.5, 16, 150_000, 8_000),
    ("reformer_duplication", "gin2019"): (1 / 8000**0.5, 16, 50_000, 8_000),
}

# Steps: Kitaev et al. 2020, table 4; rate, warm-up: Vaswani et al. 2017, section 5.3.
# Batches are a choice.
WMT = {
    ("reformer_wmt14", ""): ((512 * 4_000) ** -0.5, 832, 100_000, 4_000),
    ("reformer_wmt14", "500k"): ((512 * 4_000) ** -0.5, 832, 500_000, 4_000),
    ("reformer_wmt14", "big"): ((1024 * 4_000) ** -0.5, 832, 300_000, 4_000),
}
PUBLISHED = {**ETC, **LONGFORMER, **REFORMER, **WMT}


@pytest.mark.parametrize("key", PUBLISHED, ids="-".join)
def test_rate_batch_steps_and_warm_up(key):
    rate, batch, steps, warmup = PUBLISHED[key]
    config = load(*key)
    assert config.optimizer.learning_rate == pytest.approx(rate, rel=1e-9)
    got = (config.train.batch_size, config.train.num_steps)
    assert (*got, config.schedule.warmup(config.train.num_steps)) == (
        batch,
        steps,
        warmup,
    )


# Parameters of encoders, which the papers count.
BASE, SHARED, LARGE = 165_825_024, 109_128_192, 557_969_408
ENCODERS = {
    ("etc_base_pretrain", ""): BASE,
    ("etc_base_pretrain", "shared"): SHARED,
    ("etc_base_pretrain", "2x_vocab"): BASE + 599_040,
    ("etc_large_pretrain", "roberta_vocab"): LARGE,
    ("etc_base_hotpotqa", ""): BASE,
    ("etc_base_wikihop", "shared"): SHARED,
    ("etc_large_hotpotqa", ""): LARGE,
    ("etc_large_wikihop", ""): LARGE,
    ("etc_base_nq", ""): BASE,
    ("etc_base_nq", "2x_vocab"): BASE + 599_040,
    ("etc_large_nq", ""): LARGE,
    ("etc_base_openkp", "shared"): SHARED,
    ("etc_large_openkp", ""): LARGE,
    # By the projections, and rows of positions for long and global tokens; no labels:
    # two tables of 32 x (12 heads x 64 and a bias each) in 12 layers.
    ("bert_base_nq", ""): SHARED + 2 * 512 * 768 - 12 * 2 * 32 * (768 + 12),
}


@pytest.mark.parametrize("key", ENCODERS, ids="-".join)
def test_encoders_are_those_of_the_paper(key):
    shapes = parameters_of(load(*key))
    assert sum(x.size for x in jax.tree.leaves(shapes["encoder"])) == ENCODERS[key]
    tree_shardings(shapes, make_mesh(MeshConfig(data=8)))  # every path has a row


def of(config, names):
    return {name: getattr(config, name) for name in names.split()}


def test_the_gin_files_of_trax():
    sizes = "embed_dim mlp_dim num_heads head_dim num_layers dropout_rate "
    more = "attention_dropout_rate axial_shape axial_dims activation duplicates"
    names = sizes + more
    assert of(load("reformer_enwik8", "").model, names) == {
        **{"embed_dim": 768, "mlp_dim": 2048, "num_heads": 8, "head_dim": 64},
        **{"num_layers": 12, "dropout_rate": 0.2, "attention_dropout_rate": 0.2},
        **{"axial_shape": (128, 512), "axial_dims": (256, 512)},
        **{"activation": "relu", "duplicates": "count"},
    }
    # FastGelu is the approximation by tanh, here "gelu".
    assert of(load("reformer_imagenet64", "").model, names) == {
        **{"embed_dim": 1024, "mlp_dim": 4096, "num_heads": 8, "head_dim": 64},
        **{"num_layers": 6, "dropout_rate": 0.0, "attention_dropout_rate": 0.2},
        **{"axial_shape": (64, 64, 3), "axial_dims": (384, 384, 256)},
        **{"activation": "gelu", "duplicates": "count"},
    }
    paper = load("reformer_enwik8", "paper")
    assert of(paper.model, names) == {
        **{"embed_dim": 1024, "mlp_dim": 4096, "num_heads": 8, "head_dim": 64},
        **{"num_layers": 3, "dropout_rate": 0.1, "attention_dropout_rate": 0.0},
        **{"axial_shape": (128, 512), "axial_dims": (256, 768)},
        **{"activation": "relu", "duplicates": "once"},
    }
    for name, arg in (("reformer_enwik8", "paper"), ("reformer_duplication", "")):
        config = load(name, arg)
        assert config.optimizer.name == "adafactor"
        assert config.optimizer.adafactor.multiply_by_parameter_scale
    for name in ("reformer_enwik8", "reformer_imagenet64"):
        adam = of(load(name, "").optimizer, "name b1 b2 eps weight_decay")
        want = {"name": "adamw", "b1": 0.9, "b2": 0.98, "eps": 1e-9}
        assert adam == want | {"weight_decay": 0.0}
    copy = load("reformer_duplication", "gin2019").model
    assert of(copy, "max_length num_hashes num_buckets lsh_chunk_length") == {
        **{"max_length": 4096, "num_hashes": 8},
        **{"num_buckets": (8, 16), "lsh_chunk_length": 64},
    }


@pytest.mark.parametrize("arg, width", [("", 512), ("500k", 512), ("big", 1024)])
def test_reversible_transformers_are_those_of_the_transformer(arg, width):
    """Vaswani et al. 2017, tables 3 and section 5; Kitaev et al. 2020, table 4."""
    config = load("reformer_wmt14", arg)
    c, big = config.model, arg == "big"
    names = "embed_dim mlp_dim num_heads num_layers num_decoder_layers dropout_rate "
    assert of(c, f"{names} positions token_scale reversible") == {
        **{"embed_dim": width, "mlp_dim": 4 * width, "num_heads": 16 if big else 8},
        **{"num_layers": 6, "num_decoder_layers": 6},
        **{"dropout_rate": 0.3 if big else 0.1, "positions": "sinusoidal"},
        **{"token_scale": width**0.5, "reversible": True},
    }
    assert config.objective.label_smoothing == 0.1
    adam = of(config.optimizer, "name b1 b2 eps weight_decay")
    want = {"name": "adamw", "b1": 0.9, "b2": 0.98, "eps": 1e-9, "weight_decay": 0.0}
    assert adam == want and config.schedule.name == "inverse_sqrt"
    # All sentences are one chunk, which is attended whole.
    for causal in (False, True):
        side = c.one_side(causal)
        assert (
            set(side.pattern) == {"local"}
            and side.padded(256) == 256 <= (side.chunking[0])
        )
    # Weights of an attention, of a feed-forward half and of norms.
    e, m = width, 4 * width
    attention, mlp, norm = 4 * e * e, 2 * e * m + m + e, 2 * e
    layers = 6 * (3 * attention + 2 * mlp + 5 * norm) + 2 * norm
    tables = (1 if arg == "" else 3) * 37_000 * e + 37_000  # and a bias of the logits
    found = flatten(parameters_of(config))
    assert sum(x.size for x in found.values()) == layers + tables


def test_optimizers_of_longformer_are_those_of_its_scripts():
    names = "name b2 eps weight_decay"
    usual = {"name": "adamw", "b2": 0.999, "eps": 1e-6, "weight_decay": 0.01}
    # scripts/wikihop.py: transformers' AdamW; scripts/triviaqa.py: torch's Adam.
    assert of(load("longformer_wikihop", "").optimizer, names) == usual | {"b2": 0.98}
    torch = {"eps": 1e-8, "weight_decay": 0.0}
    assert of(load("longformer_triviaqa", "").optimizer, names) == usual | torch
    assert of(load("longformer_mlm", "").optimizer, names) == usual
    for name, arg in LONGFORMER:
        config = load(name, arg)
        linear = {"name": "linear", "power": 1.0}
        cubic = {"name": "polynomial", "power": 3.0}
        got = of(config.schedule, "name power")
        assert got == (cubic if arg == "65k" else linear)


def test_the_encoder_of_coreference_learns_at_1e_5():
    config = load("longformer_coreference", "")
    assert config.optimizer.groups == (("encoder/.*", 0.1),)
    assert config.optimizer.learning_rate * 0.1 == pytest.approx(1e-5)
    paths = flatten(parameters_of(config))
    slow = [path for path in paths if path.startswith("encoder/")]
    assert 0 < len(slow) < len(paths)
    assert load("longformer_coreference", "short").optimizer.groups == ()


@pytest.mark.parametrize("name", ["triviaqa", "wikihop", "hotpotqa"])
def test_the_large_longformer_has_the_parameters_of_the_paper(name):
    """435M with the pooler of transformers (ETC paper, table 3)."""
    config = load(f"longformer_{name}", "large")
    paths = flatten(parameters_of(config))
    total = sum(x.size for p, x in paths.items() if p.startswith("encoder/"))
    e, m, v = 1024, 4096, config.model.vocab_size
    layer = 7 * (e * e + e) + (e * m + m) + (m * e + e) + 2 * 2 * e
    assert total == (v + 4096 + 2 + 1 + 2) * e + 24 * layer
    assert round((total + e * e + e) / 1e6) == 435


@pytest.mark.parametrize(
    "name",
    ["longformer_classification", "longformer_wikihop", "longformer_coreference"],
)
def test_the_baselines_are_robertas_of_512_tokens(name):
    config, long = load(name, "roberta"), load(name, "")
    assert config.family == "roberta" and config.model.max_length == 512
    reads = config_kinds.read_at_once(config)
    assert reads == ("input_length", 512)
    assert config.optimizer == long.optimizer
    assert config.schedule == long.schedule
