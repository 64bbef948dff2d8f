"""Test environment: CPU with eight simulated devices, set before jax is imported."""

import contextlib
import gc
import os
import re

from xla_flags import xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = xla_flags(
    os.environ.get("XLA_FLAGS", ""),
    devices=8,
    # The level of optimisation is one flag for all platforms.
    quick=os.environ["JAX_PLATFORMS"] == "cpu",
)

# Tests compile the same small programs again and again, each in less than the second
# from which jax keeps them.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import changed  # noqa: E402
import double_precision  # noqa: E402
import hypothesis  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import object_store  # noqa: E402
import pytest  # noqa: E402
import tiers  # noqa: E402
from compiled_anew import compiled_anew, those_of_one_device_kept  # noqa: E402
from golden_data import golden_folder  # noqa: E402
from orbax.checkpoint._src.serialization import replica_slices  # noqa: E402

from etc_jax.base import (  # noqa: E402
    cores,
    registry,
    stores,  # noqa: E402
    user_cache,  # noqa: E402
)

# A busy machine is no fault of the code.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Where in the code each operation comes from: a twentieth of the time.
jax.config.update("jax_include_full_tracebacks_in_locations", False)
jax.config.update("jax_traceback_filtering", "off")
# Tracing makes and drops millions of objects; looking through them at the default pace
# is a fourteenth of the time.
gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session")
def bucket_port():
    """One bucket for all: tensorstore looks for its address once a process."""
    with object_store.bucket() as port:
        yield port


@pytest.fixture(scope="module")
def bucket(bucket_port):
    """An object store, where programs look for Google's."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.environment(bucket_port).items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def folder(request):
    """An address of the test's own."""
    name = re.sub(r"[^\w.]+", "-", request.node.nodeid.rpartition("/")[2])
    return stores.absolute(f"gs://{object_store.BUCKET}/{name}")


@pytest.fixture(scope="session", autouse=True)
def caches_of_the_user(tmp_path_factory):
    """No test, nor a process that it starts, looks at the user's own.

    All workers and later runs share what they compile for one device, in a folder of
    the tests.
    """
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv(user_cache.VARIABLE, str(user_cache.root() / "tests"))
        stack.enter_context(those_of_one_device_kept())
        patch.setenv(user_cache.VARIABLE, str(tmp_path_factory.mktemp("caches")))
        yield


@pytest.fixture(name="compiled_anew")
def compiled_anew_fixture():
    """For tests of compiling itself: what others have compiled is not found."""
    with compiled_anew():
        yield


@pytest.fixture(scope="session", autouse=True)
def slices_that_are_not_compiled():
    """Orbax saves a replica as slices, each a program to compile: hundreds, tiny ones.

    Those that tests start in processes of their own are as Orbax makes them.
    """

    def data(self):
        if (cut := self.slice_args) is None:
            return self.unsliced_data
        whole = np.asarray(self.unsliced_data)
        part = whole.take(range(cut.start_index, cut.limit_index), axis=cut.axis)
        return jax.device_put(part, self.unsliced_data.sharding)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_slices.ReplicaSlice, "data", data)
        yield


@pytest.fixture(autouse=True)
def modules_named_by_one_test(monkeypatch):
    """What a test names by --plugin is not imported by the programs of the next."""
    monkeypatch.setattr(registry, "_NAMED", [])


@pytest.fixture
def no_compile(monkeypatch):
    """Nothing may be traced for a compile, lowered or compiled."""

    def forbidden(*args, **kwargs):
        pytest.fail("compiled")

    monkeypatch.setattr(jax, "jit", forbidden)
    for cls, name in ((jax.stages.Traced, "lower"), (jax.stages.Lowered, "compile")):
        monkeypatch.setattr(cls, name, forbidden)


@pytest.fixture
def one_device(monkeypatch):
    """As on a laptop: for tests of what no mesh changes, whose programs are smaller."""
    alone = jax.devices()[:1]
    for name in ("devices", "local_devices"):
        monkeypatch.setattr(jax, name, lambda *args, **more: alone)


@pytest.fixture
def float64():
    """Numbers of 64 bits, in models too, for tests that use this."""
    with double_precision.ours():
        yield


def pytest_addoption(parser):
    parser.addoption("--goldens", help="folder of golden cases for tests/scoring")
    parser.addoption(
        "--quarter", type=int, choices=range(4), help="only the files of this quarter"
    )
    parser.addoption(
        "--changed", metavar="COMMIT", help="only files that import what differs"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than there are cores: some wait for disks and other processes.

    A worker holds up to 6 GB by its end, most of it programs.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores.available() + 1, memory // 6_000_000_000))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem():
    """A function's rows, each in its tier."""
    made = yield
    if isinstance(made, list) and made and isinstance(made[0], pytest.Function):
        tiers.sort(made)
    return made


def pytest_collection_modifyitems(config, items):
    """The files that are asked for; the longest first, so that workers end together."""
    files: dict[str, list] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    chosen = set(files)
    if (number := config.option.quarter) is not None:
        chosen = {file for file in chosen if tiers.quarter(file) == number}
    if (base := config.option.changed) is not None:
        chosen &= changed.tests_since(base)
    left = [item for file in files.keys() - chosen for item in files[file]]
    config.hook.pytest_deselected(items=left)
    items[:] = [x for file in sorted(chosen, key=tiers.place) for x in files[file]]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Takes `--fixtures DIR` out of pytest's own hands."""
    if (folder := golden_folder(config)) is not None:
        config.option.showfixtures = False
        config.args.remove(folder)
