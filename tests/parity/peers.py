"""Golden cases of Hugging Face's models: what they hold, and comparing with it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.formats.safetensors_io import SafetensorsFiles
from parity.cases import Case, largest_difference

GRADIENT_NORMS = ("grad_norm.names", "grad_norm.values")


class Peer:
    """A case's folder.

    Attributes:
      model_class: of transformers.
      values: its config.json.
      weights: name -> array.
      inputs: name -> array; what is taken is struck off.
      outputs: name -> array; what is compared is struck off.
    """

    def __init__(self, case: Case):
        folder = case.path.parent
        self.model_class = case.kind
        self.values = json.loads((folder / "config.json").read_text())
        self.weights = SafetensorsFiles(folder)
        self.inputs, self.outputs = (
            self._arrays(folder / f"{name}.npz") for name in ("inputs", "outputs")
        )

    @staticmethod
    def _arrays(path) -> dict[str, np.ndarray]:
        with np.load(path) as arrays:
            return dict(arrays)

    def take(self, name: str, default=None) -> np.ndarray | None:
        """An input; whole numbers as int32."""
        found = self.inputs.pop(name, default)
        if found is not None and np.issubdtype(found.dtype, np.integer):
            found = found.astype(np.int32)
        return found


def check_export(exported: Mapping[str, np.ndarray], weights) -> None:
    """What was read is what is written, bit by bit."""
    assert sorted(exported) == sorted(weights)
    for name, array in exported.items():
        np.testing.assert_array_equal(array, weights[name])


class Comparison:
    """Outputs of a case, struck off as they are compared.

    A case need not have every output. `finish` refuses one that has an output which
    nothing was compared with, or none at all.

    Args:
      outputs: of the case.
      mask: int `[b, n]`, 0 for rows that are not compared.
      start: of the names that are compared; other tests read the rest.
    """

    def __init__(
        self, outputs: Mapping[str, np.ndarray], mask: np.ndarray, start: str = ""
    ):
        self.mask, self.worst, self.compared = mask, 0.0, 0
        others = () if start else ("exact.", "generate.")
        self.outputs = {
            name.removeprefix(start): x
            for name, x in outputs.items()
            if name.startswith(start) and not name.startswith(others)
        }
        self.open = set(self.outputs)

    def has(self, *names: str) -> bool:
        """Whether the case has one of some outputs."""
        return not self.outputs.keys().isdisjoint(names)

    def rows(self, name: str, got) -> None:
        """Rows of one output; it may go on with padding after them."""
        if self.has(name):
            n, keep, got = self.mask.shape[1], self.mask > 0, np.asarray(got)
            want = self.outputs[name]
            self._found(name, got[:, :n][keep], want[:, :n][keep])

    def value(self, name: str, got) -> None:
        """A whole output."""
        if self.has(name):
            self._found(name, got, self.outputs[name])

    def _found(self, name: str, got, want) -> None:
        self.worst = max(self.worst, largest_difference(got, want))
        self.strike_off(name)

    def strike_off(self, *names: str) -> None:
        """Counts outputs as compared."""
        self.open.difference_update(names)
        self.compared += 1

    def gradient_norms(
        self, gradients: Mapping[str, Any], unused: tuple[str, ...] = ()
    ) -> None:
        """The norm of each parameter's gradient, by its name in the checkpoint.

        Args:
          gradients: name -> array.
          unused: names that may have no gradient there.
        """
        if not self.has(*GRADIENT_NORMS):
            return
        norms = {name: np.linalg.norm(x) for name, x in gradients.items()}
        names = self.outputs["grad_norm.names"]
        wanted = self.outputs["grad_norm.values"]
        # The bias of keys moves all logits of a row alike: its gradient is 0 but for
        # rounding, on both sides.
        rounding = 1e-6 * np.max(wanted)
        for name, want in zip(names, wanted, strict=True):
            if name in unused and not want:
                continue
            got, allowed = norms[str(name)], 1e-3 * want + rounding
            assert abs(got - want) <= allowed, f"{name}: {got}, expected {want}"
        self.strike_off(*GRADIENT_NORMS)

    def finish(self) -> float:
        """The largest difference; everything that there is must have been compared."""
        assert not self.open, f"unknown outputs: {sorted(self.open)}"
        assert self.compared, "the case has no outputs"
        return self.worst


def token_loss(logits, targets) -> jax.Array:
    """Mean cross entropy of the targets that are not negative."""
    counted = targets >= 0
    chances = jax.nn.log_softmax(logits)
    index = jnp.maximum(targets, 0)
    picked = jnp.take_along_axis(chances, index[..., None], -1)[..., 0]
    return -(picked * counted).sum() / counted.sum()


def value_and_grad(loss: Callable, params):
    """(loss, gradients), compiled."""
    return jax.jit(jax.value_and_grad(loss))(params)


def outputs_and_gradients(run: Callable, loss: Callable | None, *args):
    """(outputs, loss, gradients), compiled as one program.

    Args:
      run: function of `args`.
      loss: function of the outputs; None: there is none, and there are no gradients.
      *args: what `run` is differentiated by.
    """
    if loss is None:
        return jax.jit(run)(*args), None, None

    def both(*args):
        outputs = run(*args)
        return loss(outputs), outputs

    argnums = tuple(range(len(args)))
    compiled = jax.jit(jax.value_and_grad(both, argnums, has_aux=True))
    (value, outputs), gradients = compiled(*args)
    return outputs, value, gradients
