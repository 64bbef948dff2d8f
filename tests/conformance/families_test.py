"""Every family of models: padding, packing, gradients, meshes, caches, files, FLOPs."""

import hf_models
import pytest
from family_cases import (
    FamilyCase,
    check_a_mesh,
    check_alone,
    check_bfloat16,
    check_flops,
    check_gradients,
    check_layers,
    check_padding,
    check_refusals,
    check_saved,
    check_steps,
)
from repository import ROOT

from etc_jax.base.registry import names
from etc_jax.models import abilities
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.family import find
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.reformer.seq2seq import ReformerSeq2SeqConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.models.t5.config import T5Config

# Heads that do not share out the width; layers in two runs of two.
SIZES = {
    "vocab_size": 24,
    "embed_dim": 16,
    "num_layers": 4,
    "num_heads": 2,
    "head_dim": 6,
    "mlp_dim": 20,
    "dropout_rate": 0.0,
}
ENCODER = SIZES | {"max_length": 40, "attention_dropout_rate": 0.0}
PAIR = SIZES | {"max_length": 40, "num_decoder_layers": 2}
SHORT = {"max_target_length": 16}
OF_T5 = {"num_buckets": 8, "max_distance": 20}
CHUNKS = {"local_chunk_length": 4, "lsh_chunk_length": 8, "num_buckets": (4,)}
ONE_CHUNK = {"local_chunk_length": 24, "lsh_chunk_length": 24}
ONE_ROUND = ONE_CHUNK | {"num_hashes": 1, "reversible": False}
WINDOWS = {"attention_window": (4, 6)}
DILATED = {"attention_window": (4, 6), "attention_dilation": (1, (2, 1))}
WIDE = {"attention_window": (48,)}
# A mesh of three axes has no heads of different dilation.
OF_HEADS = {"tensor": 2, "sequence": 4}
OF_SEQUENCES = {"fsdp": 2, "tensor": 2, "sequence": 2}
CASES = {
    "bert": FamilyCase("bert", BertConfig(**ENCODER)),
    "roberta": FamilyCase("roberta", RobertaConfig(**ENCODER)),
    "longformer": FamilyCase(
        "longformer",
        LongformerConfig(**ENCODER, **DILATED),
        whole=WIDE | {"attention_dilation": ()},
        one_head={"attention_dilation": ()},
        mesh=OF_HEADS,
    ),
    "longformer causal": FamilyCase(
        "longformer",
        LongformerConfig(**ENCODER, **DILATED, causal=True, positions="relative"),
        whole=WIDE | {"attention_dilation": (), "positions": "none"},
        one_head={"attention_dilation": ()},
        mesh=OF_HEADS,
    ),
    "big_bird": FamilyCase(
        "big_bird",
        BigBirdConfig(**ENCODER, block_size=2, num_random_blocks=1),
        whole={"block_size": 24},
    ),
    "big_bird globals": FamilyCase(
        "big_bird",
        BigBirdConfig(
            **ENCODER,
            block_size=2,
            num_random_blocks=1,
            num_globals=2,
            random_blocks="always",
        ),
        whole={"block_size": 24},
    ),
    "etc": FamilyCase(
        "etc",
        EtcConfig(
            **SIZES,
            attention_dropout_rate=0.0,
            num_types=4,
            radius=3,
            max_distance=2,
            num_labels=8,
        ),
        model=EtcForPretraining,
        whole={"radius": 40, "hard_g2l": False},
        without_gradient="cpc_log_temperature",
        spread=0.2,
        mesh=OF_SEQUENCES,
    ),
    "reformer": FamilyCase(
        "reformer",
        ReformerConfig(
            **ENCODER,
            **CHUNKS,
            pattern=("local", "lsh"),
            axial_shape=(5, 8),
            axial_dims=(6, 10),
        ),
        alone=ONE_CHUNK,
        whole=ONE_ROUND | {"causal": False},
    ),
    "bart": FamilyCase(
        "bart", BartConfig(**PAIR, decoder_mlp_dim=8, num_decoder_heads=4)
    ),
    "bart pre-norm": FamilyCase(
        "bart",
        BartConfig(**PAIR, pre_norm=True, final_norm=True, scale_embedding=True),
    ),
    "led": FamilyCase(
        "led", LedConfig(**PAIR, **SHORT, **WINDOWS), whole=WIDE, mesh=OF_SEQUENCES
    ),
    "bart_ls": FamilyCase(
        "bart_ls",
        BartLsConfig(
            **PAIR,
            **SHORT,
            block_size=8,
            pooling_layers=2,
            pool_kernel=6,
            pool_stride=4,
            pool_padding=3,
        ),
        whole={"block_size": 24, "pooling_layers": 0},
        # Of the averages some are of padding, whose keys are this bias.
        without_gradient="(?<!pool/)key/bias",
        mesh={"sequence": 8},
    ),
    "bart_ls globals": FamilyCase(
        "bart_ls",
        BartLsConfig(
            **PAIR,
            **SHORT,
            block_size=8,
            pooling_layers=0,
            overlap=True,
            num_globals=2,
        ),
        whole={"block_size": 24},
        mesh=OF_SEQUENCES,
    ),
    "t5": FamilyCase("t5", T5Config(**PAIR, **OF_T5), spread=0.15),
    "long_t5": FamilyCase(
        "long_t5",
        LongT5Config(**PAIR, **OF_T5, radius=2, block_size=4),
        whole={"encoder_attention": "local", "radius": 40},
        spread=0.15,
        mesh=OF_SEQUENCES,
    ),
    "long_t5 local": FamilyCase(
        "long_t5",
        LongT5Config(**PAIR, **OF_T5, radius=2, encoder_attention="local"),
        whole={"radius": 40},
        spread=0.15,
        mesh=OF_SEQUENCES,
    ),
    "reformer_seq2seq": FamilyCase(
        "reformer_seq2seq",
        ReformerSeq2SeqConfig(**PAIR, **SHORT, **CHUNKS, axial_shape=(5, 8)),
        alone=ONE_CHUNK,
        whole=ONE_ROUND | {"decoder_pattern": ("local",)},
    ),
}


def can(ability):
    """The cases that can."""
    return [name for name, case in CASES.items() if case.can(ability)]


def of(names):
    """Rows; of a family those of one case are in the default run."""
    full = {x: [pytest.mark.full] if " " in x else [] for x in names}
    rows = [pytest.param(CASES[x], id=x, marks=full[x]) for x in names]
    return pytest.mark.parametrize("case", rows)


each = of(list(CASES))
# Others of a family differ in what a mesh, or the dense form, does not know.
on_meshes = of([x for x in CASES if x not in ("bart pre-norm", "long_t5 local")])
deep = of([x for x in CASES if " " not in x or x == "big_bird globals"])


def test_every_family_has_a_case():
    made = {name: type(find(name).config()).__module__ for name in names("family")}
    ours = {name for name, module in made.items() if module.startswith("etc_jax.")}
    assert ours == {case.family for case in CASES.values()}


@each
def test_gradients_are_finite_and_none_is_missing(case):
    check_gradients(case)


@each
def test_padding_is_not_read(case):
    check_padding(case)


@each
def test_rows_are_those_of_an_example_alone(case):
    check_alone(case)


@each
def test_bfloat16_is_near_float32(case):
    check_bfloat16(case)


@pytest.mark.full(but=["bart", "etc", "longformer"])
@on_meshes
def test_eight_devices_equal_one(case):
    check_a_mesh(case)


@each
def test_what_cannot_be_is_refused_as_the_table_says(case):
    check_refusals(case)


@of(can("generate"))
def test_steps_from_a_cache_are_the_whole(case):
    check_steps(case)


@pytest.mark.full(but=["bert", "led", "reformer"])
@deep
def test_layers_of_a_depth_that_is_no_multiple_of_a_period(case):
    # Of one head, whose size is what the family takes it to be.
    one = {"num_heads": 1, "head_dim": type(case.config).head_dim}
    check_layers(case.changed(num_layers=3, **one, **case.one_head))


@of(["longformer", "led"])
def test_layers_of_two_periods(case):
    check_layers(case)


@pytest.mark.parametrize("num_layers", [1, 4])
@each
def test_useful_flops_are_those_of_the_dense_model(case, num_layers):
    check_flops(case.changed(**case.whole, num_layers=num_layers))


@each
def test_models_come_back_from_their_folder(case, tmp_path):
    check_saved(case, tmp_path / "model")


def test_all_that_transformers_has_are_written_and_read():
    """By `hugging_face_test`, for each of its rows."""
    written = {type(config) for config in hf_models.CONFIGS.values()}
    assert written == {type(CASES[name].config) for name in can("weights out")}


@pytest.mark.parametrize("table", [abilities.ATTENTION, abilities.USES])
def test_the_tables_of_the_documentation_are_what_is_computed(table):
    assert abilities.table(table) in (ROOT / "docs" / "models.md").read_text()
