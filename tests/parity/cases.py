"""Golden cases: finding them under a folder and reading them."""

import dataclasses
import json
import pathlib

import numpy as np

# JSON files that belong to a case and are not one.
COMPANIONS = ("etc_config.json", "config.json", "generation_config.json")


@dataclasses.dataclass(frozen=True)
class Case:
    """One golden case, described by its sidecar.

    Attributes:
      name: path below the searched folder, for people; nothing depends on it.
      path: the sidecar.
      kind: what it is a case of; None if the sidecar does not say.
    """

    name: str
    path: pathlib.Path
    kind: str | None

    @property
    def description(self) -> dict:
        return json.loads(self.path.read_text())

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by key."""
        with np.load(self.path.with_suffix(".npz")) as arrays:
            return dict(arrays)


def group(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays whose key starts with `name/`, without it."""
    start = f"{name}/"
    return {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}


def find_cases(folder: pathlib.Path) -> list[Case]:
    """Every case under `folder`, searched through.

    A sidecar is a JSON object: `meta.json` beside a peer model, whose `model_class` is
    its kind, or `<case>.json`, which has a `kind`.
    """
    cases = []
    for path in sorted(folder.rglob("*.json")):
        if path.name in COMPANIONS or path.name.endswith(".input.json"):
            continue
        sidecar = json.loads(path.read_text())
        if not isinstance(sidecar, dict):
            sidecar = {}
        peer = path.name == "meta.json"
        name = path.parent if peer else path.with_suffix("")
        kind = sidecar.get("model_class" if peer else "kind")
        cases.append(Case(str(name.relative_to(folder)), path, kind))
    return cases


def _compared(got, want) -> tuple[np.ndarray, np.ndarray]:
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert np.isfinite(got).all(), "not finite"
    return got, want


def largest_difference(got, want) -> float:
    """Largest |got - want|, relative where values are larger than 1.

    Raises:
      AssertionError: if shapes differ or something is not finite.
    """
    got, want = _compared(got, want)
    if not want.size:
        return 0.0
    return float(np.max(np.abs(got - want) / np.maximum(1.0, np.abs(want))))


def gradient_difference(got, want) -> float:
    """Largest |got - want|, relative to the largest |want| of the tensor if above 1.

    A gradient is a sum over tokens of terms as large as those of its neighbours, so
    its float32 rounding scales with the whole tensor: an element that is small only
    because its terms cancel is as uncertain as the largest one.

    Raises:
      AssertionError: if shapes differ or something is not finite.
    """
    got, want = _compared(got, want)
    if not want.size:
        return 0.0
    return float(np.max(np.abs(got - want)) / max(1.0, np.max(np.abs(want))))
