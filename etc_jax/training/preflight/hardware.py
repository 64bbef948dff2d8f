"""What devices can do, from their makers' data sheets."""

import dataclasses
from collections.abc import Sequence

import jax


@dataclasses.dataclass(frozen=True)
class Device:
    """One device as jax counts them.

    Attributes:
      bf16_flops: dense bfloat16 matrix FLOPs per second.
      memory_bytes: of its own memory, as far as programs may use it.
      memory_bandwidth: bytes per second, read from that memory or written to it.
    """

    bf16_flops: float
    memory_bytes: float
    memory_bandwidth: float


_GB, _GiB = 1e9, 2**30

# (TFLOPs, bytes of memory, GB per second, each `jax.Device.device_kind` of such a
# device). FLOPs and GB per second: Google Cloud's TPU pages (cloud.google.com/tpu) and
# NVIDIA's data sheets; GPUs without sparsity. Memory of TPUs: what the compiler of
# libtpu 0.0.42 says is available when a program asks for more; by the same pages the
# chips have 32 (v4), 16 (v5e), 95 (v5p), 32 (v6e) and 192 GB (TPU7x). A v4 is one
# device of two cores, whose 15.25 GiB are added up; a TPU7x is two devices, as is a v3,
# whose memory is that of the pages.
_SHEETS = (
    (123 / 2, 16 * _GB, 900 / 2, "TPU v3"),
    (275, 30.5 * _GiB, 1228, "TPU v4"),
    (197, 15.75 * _GiB, 819, "TPU v5 lite", "TPU v5e"),
    (459, 95.74 * _GiB, 2765, "TPU v5", "TPU v5p"),
    (918, 31.25 * _GiB, 1640, "TPU v6 lite", "TPU v6e"),
    (2307 / 2, 94.75 * _GiB, 7370 / 2, "TPU7x"),
    (312, 40 * _GB, 1555, "NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"),
    (312, 80 * _GB, 2039, "NVIDIA A100-SXM4-80GB"),
    (312, 80 * _GB, 1935, "NVIDIA A100 80GB PCIe"),
    (989, 80 * _GB, 3350, "NVIDIA H100 80GB HBM3"),
    (756, 80 * _GB, 2000, "NVIDIA H100 PCIe"),
    (835, 94 * _GB, 3900, "NVIDIA H100 NVL"),
    (989, 141 * _GB, 4800, "NVIDIA H200"),
    (835, 141 * _GB, 4800, "NVIDIA H200 NVL"),
)
# What jax takes of a GPU, unless XLA_PYTHON_CLIENT_MEM_FRACTION is set.
_SHARE_OF_GPU = 0.75
_DEVICES = {
    kind: Device(tflops * 1e12, memory, gigabytes * _GB)
    for tflops, memory, gigabytes, *kinds in _SHEETS
    for kind in kinds
}


def kinds() -> tuple[str, ...]:
    """Every `jax.Device.device_kind` that is listed."""
    return tuple(_DEVICES)


def data_sheet(kind: str) -> Device | None:
    """What is known of a `jax.Device.device_kind`; None if it is not listed."""
    return _DEVICES.get(kind)


def peak_flops(devices: Sequence[jax.Device]) -> float | None:
    """Dense bfloat16 FLOPs per second of all devices together; None if not known."""
    sheets = [data_sheet(device.device_kind) for device in devices]
    if not sheets or None in sheets:
        return None
    return sum(sheet.bf16_flops for sheet in sheets)


def is_absent(device: jax.Device) -> bool:
    """Whether a device can only be compiled for: see training/preflight/topology.py."""
    return device.client.runtime_type == "compile_only_runtime"


def memory_of(kind: str) -> float:
    """Bytes that programs may use on a device that is not there, of a listed kind."""
    share = _SHARE_OF_GPU if kind.startswith("NVIDIA") else 1.0
    return _DEVICES[kind].memory_bytes * share


def _stats(device: jax.Device) -> dict[str, int]:
    if is_absent(device) or device.process_index != jax.process_index():
        return {}  # only its own process can ask
    return device.memory_stats() or {}


def memory_limit(device: jax.Device) -> float | None:
    """Bytes that programs may use on a device; None if not known.

    The device itself is asked first: it keeps some of what the data sheet promises.
    """
    if limit := _stats(device).get("bytes_limit"):
        return float(limit)
    sheet = data_sheet(device.device_kind)
    return None if sheet is None else sheet.memory_bytes


def peak_memory(devices: Sequence[jax.Device]) -> int | None:
    """The most bytes that any of this process's devices has held; None if not known."""
    peaks = [_stats(device).get("peak_bytes_in_use") for device in devices]
    return max((peak for peak in peaks if peak is not None), default=None)
