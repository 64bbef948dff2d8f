import types

import jax
import pytest

from etc_jax.training.preflight import hardware


def device(kind, stats=None, runtime="pjrt_ifrt"):
    return types.SimpleNamespace(
        device_kind=kind,
        process_index=0,
        memory_stats=lambda: stats,
        client=types.SimpleNamespace(runtime_type=runtime),
    )


@pytest.mark.parametrize(
    "kind, tflops, gigabytes",
    [
        ("TPU v4", 275, 1228),
        ("TPU v5 lite", 197, 819),
        ("TPU v5e", 197, 819),
        ("TPU v5", 459, 2765),
        ("TPU v5p", 459, 2765),
        ("TPU v6 lite", 918, 1640),
        ("TPU7x", 1153.5, 3685),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA H100 80GB HBM3", 989, 3350),
        ("NVIDIA H200", 989, 4800),
    ],
)
def test_peaks_of_the_data_sheets(kind, tflops, gigabytes):
    assert hardware.data_sheet(kind).memory_bandwidth == 1e9 * gigabytes
    assert hardware.peak_flops([device(kind)] * 4) == pytest.approx(4e12 * tflops)


def test_what_is_not_listed_is_not_guessed():
    assert hardware.peak_flops(jax.devices()) is None  # simulated ones on a CPU
    assert hardware.peak_flops([device("TPU v4"), device("TPU v99")]) is None
    assert hardware.peak_flops([]) is None
    assert hardware.memory_limit(jax.devices()[0]) is None
    assert hardware.peak_memory(jax.devices()) is None


def test_a_device_knows_its_memory_better_than_the_data_sheet():
    assert hardware.memory_limit(device("TPU v4", {"bytes_limit": 7})) == 7
    assert hardware.memory_limit(device("TPU v5 lite")) == 15.75 * 2**30
    assert hardware.memory_limit(device("NVIDIA H200")) == 141e9
    used = [device("x", {"peak_bytes_in_use": n}) for n in (3, 9, 5)]
    assert hardware.peak_memory([*used, device("x")]) == 9


def test_a_device_that_is_not_there_is_not_asked():
    absent = device("TPU v5", {"bytes_limit": 7}, runtime="compile_only_runtime")
    assert hardware.is_absent(absent)
    assert hardware.memory_limit(absent) == 95.74 * 2**30
    assert hardware.peak_memory([absent]) is None
    assert not hardware.is_absent(jax.devices()[0])
