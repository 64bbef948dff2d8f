"""What the benchmark ran on, and whether anything else ran there too.

Other work on the machine skews even interleaved ratios, since one library's thread
pool suffers more from it than another's. So a busy machine is refused.
"""

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import resource
import time

from etc_jax.base import cores

# Load average above which the machine counts as busy, per core.
LOAD_PER_CORE = 0.5
# CPU use by others above which the machine counts as busy, in cores.
OTHER_CORES = 0.2
PROBE_SECS = 1.0
PACKAGES = ("jax", "jaxlib", "flax", "numpy", "torch", "transformers")


class BusyMachineError(RuntimeError):
    """Something else uses the machine, so times would mean little."""


def use(platform: str, precision: str | None = None) -> None:
    """Has JAX compute there, in this process, where it has not begun, and in others.

    Args:
      platform: cpu, cuda or tpu.
      precision: of products, "highest" for all bits of float32; None: JAX's default,
        which on GPUs and TPUs has fewer.
    """
    import jax

    options = {"jax_platforms": platform, "jax_default_matmul_precision": precision}
    for name, value in options.items():
        if value is not None:
            os.environ[name.upper()] = value
            # JAX, which is imported by now, has read that before.
            jax.config.update(name, value)
    # A GPU's memory is for PyTorch as well.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"


def num_threads() -> int:
    """Cores that this process may use; every side gets as many threads."""
    return cores.available()


@dataclasses.dataclass(frozen=True)
class CpuUse:
    """CPU seconds so far: of the whole machine and of this process and its children."""

    wall: float
    total: float
    own: float


def cpu_use() -> CpuUse:
    """Reads `/proc/stat` and the usage counters of this process."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    # user, nice, system, idle, iowait, irq, softirq, steal; guest is within user.
    user, nice, system, _, _, irq, softirq, steal = (int(x) for x in fields[:8])
    ticks = user + nice + system + irq + softirq + steal
    own = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        own += usage.ru_utime + usage.ru_stime
    return CpuUse(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), own)


def other_cores(start: CpuUse, end: CpuUse) -> float:
    """Cores used by everything else between two readings, on average."""
    others = (end.total - start.total) - (end.own - start.own)
    return max(0.0, others / max(end.wall - start.wall, 1e-9))


@dataclasses.dataclass(frozen=True)
class Quiet:
    """How quiet the machine was.

    Attributes:
      load: 1-minute load average before the start.
      other_cores_before: cores used by others just before the start.
      other_cores_during: cores used by others while sides were timed.
      reasons: why the machine counts as busy; empty if it does not.
    """

    load: float
    other_cores_before: float
    other_cores_during: float | None = None
    reasons: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        return bool(self.reasons)


def probe(seconds: float = PROBE_SECS) -> Quiet:
    """Watches the machine for a moment."""
    load = os.getloadavg()[0]
    start = cpu_use()
    time.sleep(seconds)
    others = other_cores(start, cpu_use())
    reasons = []
    limit = LOAD_PER_CORE * os.cpu_count()
    if load > limit:
        reasons.append(f"1-minute load average is {load:.2f}, limit {limit:.2f}")
    if others > OTHER_CORES:
        reasons.append(
            f"other processes use {others:.2f} cores, limit {OTHER_CORES:.2f}"
        )
    return Quiet(load, others, reasons=tuple(reasons))


def require_quiet(*, allow_busy: bool) -> Quiet:
    """Probes the machine before anything is built.

    Raises:
      BusyMachineError: if it is busy and `allow_busy` is not set.
    """
    quiet = probe()
    if quiet.busy and not allow_busy:
        raise BusyMachineError(
            f"the machine is busy: {'; '.join(quiet.reasons)}. Wait until it is quiet, "
            "or pass --allow_busy, which is recorded in the output"
        )
    return quiet


def after(quiet: Quiet, start: CpuUse, end: CpuUse) -> Quiet:
    """`quiet` with what others did between two readings around the timed part."""
    others = other_cores(start, end)
    reasons = quiet.reasons
    if others > OTHER_CORES:
        reasons += (f"others used {others:.2f} cores during the timed part",)
    return dataclasses.replace(quiet, other_cores_during=others, reasons=reasons)


def cpu_name() -> str:
    """The processor's name, or that of its kind."""
    info = pathlib.Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def describe() -> dict:
    """Chip, cores, memory and versions, ready for JSON."""
    import jax

    device = jax.devices()[0]
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "chip": cpu_name() if device.platform == "cpu" else device.device_kind,
        "backend": device.platform,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": num_threads(),
        "memory_bytes": pages,
        "system": platform.platform(),
        "versions": versions,
    }
