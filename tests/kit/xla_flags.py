"""XLA's flags for tests: simulated devices, and compiling that is quick."""

import limits

# Compiling is most of what the tests take. On CPU the first two leave a sixth of it for
# the pre-training loss and its gradient. The programs are small: cut in 32 parts, as by
# default, the tests of the encoders take a tenth more.
_QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
    "--xla_cpu_parallel_codegen_split_count=1",
)


def xla_flags(given: str = "", *, devices: int, quick: bool = True) -> str:
    """`given`, and after it those of the tests' own flags that it does not set."""
    own = (
        f"--xla_force_host_platform_device_count={devices}",
        # Devices are threads, and a process whose devices do not meet in 40 s is ended:
        # eight on a busy core need longer.
        f"--xla_cpu_collective_call_terminate_timeout_seconds={limits.SECS}",
        *(_QUICK if quick else ()),
    )
    names = {flag.split("=")[0] for flag in given.split()}
    more = [flag for flag in own if flag.split("=")[0] not in names]
    return " ".join([*given.split(), *more])
