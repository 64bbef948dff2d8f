"""Models of the papers' sizes have as many parameters as transformers' have."""

import math

import jax
import pytest

from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.encoder_decoder.hf_config import config_to_hf
from etc_jax.models.encoder_decoder.weights import shapes
from etc_jax.models.family import sizes as model_sizes

# Of transformers 5.24 on the meta device, with one array for what is tied, and without
# the zeros that BART adds to its logits; see the test below.
COUNTS = {
    "bart_base": 139_420_416,
    "bart_large": 406_291_456,
    "led_base": 161_844_480,
    "led_large": 459_801_600,
    # BART's, with 15,360 positions more and the attention of four layers to averages.
    "bart_ls_base": 139_420_416 + 15_360 * 768 + 4 * 4 * (768 + 1) * 768,
    "bart_ls_large": 406_291_456 + 15_360 * 1024 + 4 * 4 * (1024 + 1) * 1024,
    "t5_small": 60_506_624,
    "t5_base": 222_903_552,
    "t5_large": 737_668_096,
    "t5_3b": 2_851_598_336,
    "t5_v11_small": 76_961_152,
    "t5_v11_base": 247_577_856,
    "t5_v11_large": 783_150_080,
    "t5_v11_xl": 2_849_757_184,
    "long_t5_local_base": 247_577_856,
    "long_t5_local_large": 783_150_080,
    "long_t5_local_xl": 2_849_757_184,
    "long_t5_tglobal_base": 247_587_456,
    "long_t5_tglobal_large": 783_175_168,
    "long_t5_tglobal_xl": 2_849_807_360,
}


SIZES = {
    name: config
    for name, config in model_sizes().items()
    if isinstance(config, EncoderDecoderConfig)
}


@pytest.mark.parametrize("name", SIZES)
def test_the_number_of_parameters_is_that_of_the_released_model(name):
    config = SIZES[name]
    assert not list(config.problems())
    leaves = jax.tree.leaves(shapes(config))
    # transformers counts the bias of the logits as no parameter.
    more = config.vocab_size if config.logits_bias else 0
    assert sum(math.prod(x.shape) for x in leaves) - more == COUNTS[name]


@pytest.mark.torch
@pytest.mark.parametrize("name", [x for x in SIZES if not x.startswith("bart_ls")])
def test_transformers_has_as_many(name):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    values = config_to_hf(SIZES[name])
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        model = getattr(transformers, values["architectures"][0])(config)
    count = sum(x.numel() for x in model.parameters())
    # Made of a config alone, it ties what real checkpoints do not.
    if not SIZES[name].tied_logits:
        count += config.vocab_size * config.d_model
    assert count == COUNTS[name]
