"""Chips as clouds and clusters lend them: kinds, sizes, hosts, names there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from etc_jax.base.suggestions import did_you_mean
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import topology


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of chips.

    Attributes:
      device_kind: of `jax.Device`, as `preflight.hardware` lists it.
      chips_per_host: of hosts that hold as many.
      gke: what Kubernetes' nodes with such chips are labelled with; "" if there are
        none.
      devices_per_chip: as jax counts them.
      accelerator: what `gcloud` calls a slice, before the dash and its size; "" if it
        does not lend them as machines of one's own.
      cores_per_chip: by which that size counts.
      runtime: the image that such machines begin with.
      sizes: that are lent, in chips; () where hosts alone are counted.
    """

    device_kind: str
    chips_per_host: int
    gke: str = ""
    devices_per_chip: int = 1
    accelerator: str = ""
    cores_per_chip: int = 1
    runtime: str = ""
    sizes: tuple[str, ...] = ()


# Labels and hosts: Google Cloud's pages on TPUs and GPUs in GKE, and the table of xpk
# 1.16.0, which tests compare; neither has v3. Images: "TPU software versions"
# (cloud.google.com/tpu). TPU7x is lent through GKE alone.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "v3": Kind(
            device_kind="TPU v3",
            chips_per_host=4,
            devices_per_chip=2,
            accelerator="v3",
            cores_per_chip=2,
            runtime="tpu-ubuntu2204-base",
            sizes=("2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"),
        ),
        "v4": Kind(
            device_kind="TPU v4",
            chips_per_host=4,
            gke="tpu-v4-podslice",
            accelerator="v4",
            cores_per_chip=2,
            runtime="tpu-ubuntu2204-base",
            sizes=("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8"),
        ),
        "v5e": Kind(
            device_kind="TPU v5e",
            chips_per_host=4,
            gke="tpu-v5-lite-podslice",
            accelerator="v5litepod",
            runtime="v2-alpha-tpuv5-lite",
            sizes=topology.KNOWN["v5e"],
        ),
        "v5p": Kind(
            device_kind="TPU v5p",
            chips_per_host=4,
            gke="tpu-v5p-slice",
            accelerator="v5p",
            cores_per_chip=2,
            runtime="v2-alpha-tpuv5",
            sizes=topology.KNOWN["v5p"],
        ),
        "v6e": Kind(
            device_kind="TPU v6e",
            chips_per_host=4,
            gke="tpu-v6e-slice",
            accelerator="v6e",
            runtime="v2-alpha-tpuv6e",
            sizes=topology.KNOWN["v6e"],
        ),
        "tpu7x": Kind(
            device_kind="TPU7x",
            chips_per_host=4,
            gke="tpu7x",
            devices_per_chip=2,
            sizes=topology.KNOWN["tpu7x"],
        ),
        "h100": Kind("NVIDIA H100 80GB HBM3", 8, "nvidia-h100-80gb"),
        "h200": Kind("NVIDIA H200", 8, "nvidia-h200-141gb"),
    }
)


@dataclasses.dataclass(frozen=True)
class Slice:
    """Chips that a fast network joins: a slice of TPUs, or the GPUs of a host.

    Attributes:
      name: as it is written: kind and size, v5e:4x4 or h100:8.
      kind: of its chips.
      size: in chips, by dimension.
    """

    name: str
    kind: Kind
    size: tuple[int, ...]

    @property
    def is_tpu(self) -> bool:
        return bool(self.kind.sizes)

    @property
    def chips(self) -> int:
        return math.prod(self.size)

    @property
    def chips_per_host(self) -> int:
        return min(self.chips, self.kind.chips_per_host)

    @property
    def hosts(self) -> int:
        return self.chips // self.chips_per_host

    @property
    def devices(self) -> int:
        """As jax counts them."""
        return self.chips * self.kind.devices_per_chip

    @property
    def size_name(self) -> str:
        """As Kubernetes has it, such as 4x4."""
        return self.name.partition(":")[2]

    @property
    def accelerator_type(self) -> str:
        """As `gcloud` has it, which counts cores of some kinds and chips of others."""
        return f"{self.kind.accelerator}-{self.chips * self.kind.cores_per_chip}"


def parse(name: str) -> Slice:
    """A slice by its name.

    Args:
      name: kind and size in chips, such as v5e:4x4, v5p:2x2x2, or h100:8 for a host.

    Raises:
      UserError: naming the nearest there is.
    """
    kind_name, _, size = name.partition(":")
    kind = KINDS.get(kind_name)
    if kind and size in _sizes(kind):
        return Slice(name, kind, tuple(map(int, size.split("x"))))
    names = [f"{key}:{x}" for key, k in KINDS.items() for x in _sizes(k)]
    shown = [x for x in names if x.startswith(f"{kind_name}:")] if kind else names
    raise UserError(
        f"--hardware={name} is not known; {did_you_mean(name, names)} There are: "
        f"{', '.join(shown)}"
    )


def _sizes(kind: Kind) -> Sequence[str]:
    """That are lent; of GPUs those of a host: all, a half, and so on."""
    return kind.sizes or [str(2**i) for i in range(kind.chips_per_host.bit_length())]
