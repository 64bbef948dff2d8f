"""Golden cases of transformers' Reformer."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.reformer import config_from_hf, export_hf, import_hf
from etc_jax.conversion.safetensors_io import SafetensorsFiles
from etc_jax.models.reformer import ReformerLm
from parity.cases import Case, largest_difference

# float32 as it is there, and the same in float64, by rounding.
_OUTPUTS = {"transformers": "", "exact": "exact."}
# transformers 5 keeps the bias of the logits and does not add it.
_UNUSED = "lm_head.bias"


def run(case: Case) -> float:
    """Compares both roundings with what has them."""
    return max(_run(case, rounding) for rounding in _OUTPUTS)


def _run(case: Case, rounding: str) -> float:
    """Compares buckets, hidden states, logits, losses and gradient norms."""
    folder = case.path.parent
    config = config_from_hf(json.loads((folder / "config.json").read_text()))
    with np.load(folder / "inputs.npz") as arrays:
        inputs = dict(arrays)
    with np.load(folder / "outputs.npz") as arrays:
        outputs = dict(arrays)
    config = dataclasses.replace(config, rounding=rounding)
    model, weights = ReformerLm(config), SafetensorsFiles(folder)
    tokens = inputs.pop("input_ids").astype(np.int32)
    mask = inputs.pop("attention_mask", np.ones_like(tokens)).astype(np.int32)
    rotations, labels = inputs.pop("rotations"), inputs.pop("labels", None)
    assert not inputs, f"unknown inputs {sorted(inputs)}"
    abstract = jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]
    params, _ = import_hf(weights, config, abstract)
    exported = export_hf(params, config)
    assert sorted(exported) == sorted(weights)
    for name, array in exported.items():
        np.testing.assert_array_equal(array, weights[name])

    def hidden(module, *args):
        x, streams, buckets = module.encoder.with_hidden(*args)
        return module.logits(x), streams, buckets

    @jax.jit
    def run(params):
        return model.apply({"params": params}, tokens, mask, rotations, method=hidden)

    logits, streams, buckets = run(params)
    compare = _Comparison(outputs, mask, _OUTPUTS[rounding])
    for i, stream in enumerate(streams):
        compare.rows(f"hidden_states.{i}", stream)
    compare.rows("logits", logits)
    compare.buckets(config, buckets)
    if labels is not None and rounding == "transformers":
        compare.losses(model, params, tokens, mask, rotations, labels, config)
        compare.finish()
    return compare.worst


class _Comparison:
    """Outputs of a case, struck off as they are compared."""

    def __init__(self, outputs: dict[str, np.ndarray], mask: np.ndarray, kind: str):
        self.outputs, self.mask, self.kind, self.worst = outputs, mask, kind, 0.0
        self.open = {n for n in outputs if not n.startswith(("exact.", "generate."))}

    def rows(self, name: str, got) -> None:
        """Real rows of one output."""
        n, keep, got = self.mask.shape[1], self.mask > 0, np.asarray(got)
        want = self.outputs[f"{self.kind}{name}"]
        assert got.shape == want.shape
        found = largest_difference(got[:, :n][keep], want[:, :n][keep])
        self.worst = max(self.worst, found)
        self.open.discard(name)

    def buckets(self, config, got) -> None:
        """Equal numbers: theirs count rounds too, and padding as a bucket if any."""
        for i, mine in enumerate(got):
            mine = np.asarray(mine)
            b, h, rounds, n = mine.shape
            number = int(np.prod(config.num_buckets))
            real = np.zeros((b, n), bool)
            real[:, : self.mask.shape[1]] = self.mask > 0
            if not real.all():
                mine = np.where(real[:, None, None], mine, number)
                number += 1
            mine = mine + number * np.arange(rounds)[:, None]
            name = f"lsh_buckets.{i}"
            np.testing.assert_array_equal(mine.reshape(b, h, -1), self.outputs[name])
            self.open.discard(name)

    def losses(self, model, params, tokens, mask, rotations, labels, config) -> None:
        """The loss, and the norm of each parameter's gradient."""
        targets, inputs = labels, slice(None)
        if config.causal:
            targets, inputs = labels[:, 1:], slice(None, -1)
        counted = targets >= 0

        def loss(params):
            logits = model.apply({"params": params}, tokens, mask, rotations)
            chances = jax.nn.log_softmax(logits[:, inputs])
            index = jnp.maximum(targets, 0).astype(np.int32)
            picked = jnp.take_along_axis(chances, index[..., None], -1)[..., 0]
            return -(picked * counted).sum() / counted.sum()

        got, gradients = jax.jit(jax.value_and_grad(loss))(params)
        for name in ("loss", "train_loss"):
            self.worst = max(self.worst, largest_difference(got, self.outputs[name]))
            self.open.discard(name)
        norms = {k: np.linalg.norm(x) for k, x in export_hf(gradients, config).items()}
        names = self.outputs["grad_norm.names"]
        for name, want in zip(names, self.outputs["grad_norm.values"], strict=True):
            if name == _UNUSED and not want:
                continue
            difference = abs(norms[str(name)] - want) / abs(want)
            assert difference <= 1e-3, f"{name}: {norms[str(name)]}, expected {want}"
        self.open -= {"grad_norm.names", "grad_norm.values"}

    def finish(self) -> None:
        assert not self.open, f"not compared: {sorted(self.open)}"
