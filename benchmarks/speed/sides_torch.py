"""Sides in PyTorch: Hugging Face Longformer and BigBird, and a dense layer on SDPA."""

import os
from collections.abc import Mapping
from typing import Any

# Read when PyTorch's thread pool starts: idle threads sleep instead of spinning, which
# would take time from the side that runs next.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from benchmarks.kit import machine  # noqa: E402
from benchmarks.speed import problem  # noqa: E402
from benchmarks.speed.problem import Sizes  # noqa: E402

# Name of a weight of the problem -> name in a Hugging Face layer.
_HF_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "wi": "intermediate.dense",
    "wo": "output.dense",
    "mlp_norm": "output.LayerNorm",
}
_PLAIN_NAMES = {name: name for name in _HF_NAMES}
# Longformer projects global tokens apart; equal weights make it the shared layer.
_GLOBAL_NAMES = {
    name: f"{_HF_NAMES[name]}_global" for name in ("query", "key", "value")
}


class SdpaLayer(nn.Module):
    """The layer of `problem` on `scaled_dot_product_attention`, dense, no labels."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.num_heads = sizes.num_heads
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Linear(sizes.embed_dim, sizes.embed_dim))
        self.wi = nn.Linear(sizes.embed_dim, sizes.mlp_dim)
        self.wo = nn.Linear(sizes.mlp_dim, sizes.embed_dim)
        for name in problem.NORMS:
            norm = nn.LayerNorm(sizes.embed_dim, eps=problem.NORM_EPSILON)
            setattr(self, name, norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, length, embed]` -> the same shape."""

        def heads(y):
            return y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        context = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        )
        x = self.attention_norm(x + self.out(context.transpose(1, 2).flatten(2)))
        return self.mlp_norm(x + self.wo(F.gelu(self.wi(x))))


def _padded(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def _common(sizes: Sizes) -> dict[str, Any]:
    return {
        "hidden_size": sizes.embed_dim,
        "num_attention_heads": sizes.num_heads,
        "intermediate_size": sizes.mlp_dim,
        "num_hidden_layers": 1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": problem.NORM_EPSILON,
    }


def _sdpa(sizes: Sizes):
    return SdpaLayer(sizes), {}, sizes.global_length + sizes.long_length


def _longformer(sizes: Sizes):
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerLayer

    window = 2 * sizes.radius
    g, real = sizes.global_length, sizes.global_length + sizes.long_length
    length = _padded(real, window)
    layer = LongformerLayer(
        LongformerConfig(attention_window=[window], **_common(sizes)), 0
    )
    # 0 local, positive global, negative unseen
    mask = torch.zeros(sizes.batch_size, length)
    mask[:, :g] = torch.finfo(torch.float32).max
    mask[:, real:] = torch.finfo(torch.float32).min
    call = {
        "attention_mask": mask,
        "is_index_masked": mask < 0,
        "is_index_global_attn": mask > 0,
        "is_global_attn": True,
    }
    return layer, call, length


def _bigbird(sizes: Sizes):
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import (
        BigBirdLayer,
        BigBirdModel,
    )

    block, random = sizes.bigbird_block_size, sizes.bigbird_random_blocks
    length = _padded(sizes.global_length + sizes.long_length, block)
    least = (5 + 2 * random) * block
    if length <= least:
        raise ValueError(
            f"BigBird with block size {block} and {random} random blocks needs more "
            f"than {least} tokens, got {length}; lengthen the input or make blocks "
            "smaller"
        )
    config = BigBirdConfig(
        attention_type="block_sparse",
        block_size=block,
        num_random_blocks=random,
        max_position_embeddings=max(length, 4096),
        **_common(sizes),
    )
    layer = BigBirdLayer(config, seed=sizes.seed)
    shape = sizes.batch_size, length
    mask = torch.ones(*shape, dtype=getattr(torch, sizes.dtype))
    mask[:, sizes.global_length + sizes.long_length :] = 0
    masks = BigBirdModel.create_masks_for_block_sparse_attn(mask, block)
    names = ("blocked_encoder_mask", "band_mask", "from_mask", "to_mask")
    return layer, dict(zip(names, masks, strict=True)), length


_BUILDERS = {
    "torch_sdpa": (_sdpa, _PLAIN_NAMES),
    "hf_longformer": (_longformer, _HF_NAMES),
    "hf_bigbird": (_bigbird, _HF_NAMES),
}


def _pairs(names: Mapping[str, str], layer: nn.Module, name: str):
    """(parameter of the layer, whether it is transposed) for one weight's name."""
    base, kind = name.split("/")
    own = layer.get_submodule(names[base])
    return getattr(own, "bias" if kind == "bias" else "weight"), kind == "kernel"


class TorchLayer:
    """A PyTorch layer with the problem's weights and inputs.

    Args:
      name: torch_sdpa, hf_longformer or hf_bigbird.
      sizes: of the layer; labels are left out.
      gradient: forward and backward, or forward alone.
      platform: "cpu" or "gpu", as JAX calls it.
    """

    def __init__(self, name: str, sizes: Sizes, *, gradient: bool, platform: str):
        torch.set_num_threads(machine.num_threads())
        self._device = torch.device("cuda" if platform == "gpu" else platform)
        dtype = getattr(torch, sizes.dtype)
        build, self._names = _BUILDERS[name]
        self._layer, self._call, length = build(sizes)
        # Longformer's own redundant global projections take part in the gradient.
        self._with_globals = name == "hf_longformer"
        self._weights = [w for w in problem.weights(sizes) if "labels" not in w]
        self._load(problem.weights(sizes))
        # In training BigBird draws its random blocks; dropout is 0 either way.
        self._layer.eval()
        self._layer.to(self._device, dtype)
        for key, x in self._call.items():
            if isinstance(x, torch.Tensor):
                self._call[key] = x.to(self._device)
        self._gradient = gradient
        x = problem.inputs(sizes)
        self._real = x.shape[1]
        x = np.pad(x, ((0, 0), (0, length - self._real), (0, 0)))
        self._x = torch.from_numpy(x).to(self._device, dtype)
        self._x.requires_grad_(gradient)

    def _tables(self, name: str) -> list[Mapping[str, str]]:
        has_global = self._with_globals and name.split("/")[0] in _GLOBAL_NAMES
        return [self._names, _GLOBAL_NAMES] if has_global else [self._names]

    def _load(self, weights: problem.Weights) -> None:
        with torch.no_grad():
            for name in self._weights:
                for table in self._tables(name):
                    parameter, transposed = _pairs(table, self._layer, name)
                    value = torch.from_numpy(weights[name])
                    parameter.copy_(value.T if transposed else value)

    def _forward(self) -> torch.Tensor:
        output = self._layer(self._x, **self._call)
        output = output[0] if isinstance(output, tuple) else output
        return output[:, : self._real]

    def run(self) -> torch.Tensor:
        """One call, waited for; gradients are left on the parameters and the input."""
        with torch.set_grad_enabled(self._gradient):
            self._layer.zero_grad(set_to_none=True)
            self._x.grad = None
            output = self._forward()
            if self._gradient:
                output.float().square().sum().backward()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return output.detach()

    def arrays(self, output: torch.Tensor) -> dict[str, np.ndarray]:
        """Named arrays as `sides_jax.layer_arrays` gives them."""
        arrays = {"output": output}
        if not self._gradient:
            return _as_numpy(arrays)
        arrays["grad inputs"] = self._x.grad[:, : self._real]
        for name in self._weights:
            total = 0.0
            for table in self._tables(name):
                parameter, transposed = _pairs(table, self._layer, name)
                total = total + (parameter.grad.T if transposed else parameter.grad)
            arrays[f"grad {name}"] = total
        del arrays[problem.ROUNDING_ONLY]
        return _as_numpy(arrays)


def _as_numpy(arrays):
    return {name: x.float().cpu().numpy() for name, x in arrays.items()}
