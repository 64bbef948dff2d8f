"""Two real processes on loopback: equal to one, stopped and resumed, and their faults.

The figures of the tests are printed; run with -s to see them.
"""

import dataclasses
import functools
import json
import pathlib
import re
import shutil
import signal
import time

import jax
import limits
import numpy as np
import processes
import pytest
import small_text
import toy_job
from repository import ROOT

from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

TIMES = ("tokens_per_s", "data_wait_share", "checkpoint_share", "wall_secs")
LONG = ("--config.train.num_steps=100000", "--config.checkpoint.every_steps=99999")


@pytest.fixture(scope="module")
def cache():
    """What processes of the toy job compile is kept beside what all tests do.

    It has no loop, with which programs of several CPUs are not safe to read back (see
    `compile_cache`): so this is jax's own variable, and no flag.
    """
    return {"JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return processes.toy_config(tmp_path_factory.mktemp("config"))


@pytest.fixture
def start(tmp_path, toy, cache):
    """Starts the toy job in two processes, in `tmp_path / "run"`."""

    def start(*arguments, output="output", **options):
        return processes.start(
            tmp_path / output,
            *arguments,
            **{"config": toy, "workdir": tmp_path / "run", **cache, **options},
        )

    return start


def digest(workdir: pathlib.Path, copy: pathlib.Path, **changes) -> str:
    """Of the state that a finished run of the toy job saved, read by one process."""
    shutil.copytree(workdir, copy)
    result = train_and_evaluate(toy_job.config(**changes), copy)
    assert result.exit_code == errors.DONE and result.step == 12
    return toy_job.digest(result.state)


def timeless(workdir: pathlib.Path) -> list[dict]:
    lines = processes.metrics(workdir, "train")
    return [{k: v for k, v in x.items() if k not in TIMES} for x in lines]


@dataclasses.dataclass(frozen=True)
class Whole:
    """An uninterrupted run in two processes."""

    workdir: pathlib.Path
    digest: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory, toy, cache):
    folder = tmp_path_factory.mktemp("whole")
    with processes.start(
        folder,
        config=toy,
        workdir=folder / "run",
        **cache,
        # How a machine does its part is its own affair.
        each=tuple((f"--config.train.prefetch_batches={n}",) for n in (1, 3)),
    ) as started:
        assert started.wait() == [0, 0], started.all_output()
    return Whole(folder / "run", digest(folder / "run", folder / "copy"))


def test_two_processes_learn_what_one_learns(whole, tmp_path):
    train_and_evaluate(toy_job.config(), tmp_path)
    for kind, names in (("train", ("loss", "grad_norm")), ("eval", ("loss",))):
        one, two = (processes.metrics(x, kind) for x in (tmp_path, whole.workdir))
        assert [x["step"] for x in one] == [x["step"] for x in two]
        for name in names:
            np.testing.assert_allclose(
                [x[name] for x in two], [x[name] for x in one], rtol=1e-5
            )
    assert (whole.workdir / "final_report.json").read_bytes() == (
        tmp_path / "final_report.json"
    ).read_bytes()
    assert processes.saved_steps(whole.workdir) == [4, 8, 12]


@pytest.mark.full
def test_a_signal_to_one_of_two_stops_both_and_the_run_goes_on_bit_by_bit(
    whole, start, tmp_path
):
    # The other one's turn each time. A vote of step k is known when step k + 1 has
    # been started, and the signal of step k comes after its vote. At neither step is an
    # evaluation due, whose batches vote too.
    for process, at, saved in ((1, 2, 4), (0, 7, 9)):
        with start(output=f"until_{saved}", STOP=f"{process}:{at}") as started:
            assert started.wait() == [17, 17], started.all_output()
        assert processes.saved_steps(tmp_path / "run")[-1] == saved
        for number in (0, 1):
            assert f"SIGTERM: saved step {saved}" in started.output(number)
    with start(output="to_the_end") as started:
        assert started.wait() == [0, 0], started.all_output()
    assert timeless(tmp_path / "run") == timeless(whole.workdir)
    assert digest(tmp_path / "run", tmp_path / "copy") == whole.digest


@pytest.mark.full
def test_a_signal_within_an_evaluation_cuts_it_off_on_both(start, tmp_path):
    """They leave it at the same batch, or one would wait for the other for ever."""
    many = {"EVALUATIONS": "60"}
    with start(output="cut_off", STOP_WITHIN="1", **many) as started:
        assert started.wait() == [17, 17], started.all_output()
    for number in (0, 1):
        assert "the evaluation of step 6 is cut off" in started.output(number)
        assert "SIGTERM: saved step 6" in started.output(number)
    assert processes.metrics(tmp_path / "run", "eval") == []
    with start(output="to_the_end", **many) as started:
        assert started.wait() == [0, 0], started.all_output()
    steps = [x["step"] for x in processes.metrics(tmp_path / "run", "train")]
    assert steps == list(range(1, 13))
    made_up = [x["step"] for x in processes.metrics(tmp_path / "run", "eval")]
    assert made_up == [6, 12]
    assert not (tmp_path / "run" / "owner.json").exists()


# Without its coordinator a process ends at once, without a worker by the heartbeat, for
# which the next test waits too.
@pytest.mark.parametrize(
    "victim", [pytest.param(0, id="coordinator"), pytest.param(1, id="worker")]
)
@pytest.mark.full
def test_a_dead_process_ends_the_other_in_bounded_time(start, tmp_path, victim):
    with start(*LONG) as started:
        started.reaches(tmp_path / "run", lines=3)
        started.children[victim].kill()
        began = time.monotonic()
        codes = started.wait()
        secs = time.monotonic() - began
    code = codes[1 - victim]
    print(f"process {victim} killed: the other ended after {secs:.1f} s with {code}")
    assert secs <= 40
    # By jax's client (SIGABRT), or by an exception of a collective.
    assert code in (-signal.SIGABRT, 1), started.all_output()


@pytest.mark.full
def test_a_stopped_process_ends_the_other_in_bounded_time(start, tmp_path):
    """It is there but silent, as a host whose network is gone: the heartbeat's case."""
    with start(*LONG) as started:
        started.reaches(tmp_path / "run", lines=3)
        started.children[1].send_signal(signal.SIGSTOP)
        began = time.monotonic()
        code = started.children[0].wait(limits.SECS)
        secs = time.monotonic() - began
    print(f"process 1 fell silent: process 0 ended after {secs:.1f} s with {code}")
    assert secs <= 40
    assert code == -signal.SIGABRT
    # jax names it as a task of a job, or by its number alone.
    silent = r"stopped sending heartbeats\):\s+(\S*task:)?1\s"
    assert re.search(silent, started.output(0)), started.output(0)


def test_another_config_on_one_process_is_named_on_both(start, tmp_path):
    each = (("--config.train.seed=1",), ("--config.train.seed=2",))
    with start(each=each) as started:
        assert started.wait() == [2, 2], started.all_output()
    for number in (0, 1):
        text = started.output(number)
        assert "the processes differ in their config (2 values)" in text
        assert "config hash: " in text
        assert "train.seed: 1 on process 0, 2 on process 1" in text
        assert "compiled" not in text and "Traceback" not in text
    assert not (tmp_path / "run").exists()


@pytest.mark.full
def test_another_number_of_processes_is_named(start):
    address = f"127.0.0.1:{processes.free_port()}"
    variables = tuple(
        {
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(count),
            "JAX_PROCESS_ID": str(number),
        }
        for number, count in enumerate((2, 3))
    )
    with start(variables=variables) as started:
        assert started.wait() == [2, 2], started.all_output()
    for number in (0, 1):
        assert "number of processes: 2 on process 0, 3 on process 1" in (
            started.output(number)
        )


def test_a_mistake_that_one_process_sees_ends_both_with_its_message(start, tmp_path):
    """The toy job of process 1 alone has an id that is too large."""
    with start(BAD_ROWS="1") as started:
        assert started.wait() == [2, 2], started.all_output()
    assert "token id" in started.output(1) and "Traceback" not in started.output(1)
    assert "process 1 cannot go on: UserError" in started.output(0)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.full
def test_bad_batches_in_a_row_end_both_with_3(start, tmp_path):
    poison = (
        "--config.model.poison_from=5",
        "--config.model.poison_to=99",
        "--config.train.max_nonfinite_steps=3",
    )
    with start(*poison) as started:
        assert started.wait() == [3, 3], started.all_output()
    for number in (0, 1):
        text = started.output(number)
        assert "3 updates in a row were not finite, the last at step 8" in text
        assert str(tmp_path / "run" / "checkpoints" / "4") in text
        assert "Traceback" not in text
    skipped = [x["skipped_steps"] for x in processes.metrics(tmp_path / "run", "train")]
    assert skipped[-1] == 3


FEW_STEPS = {
    **small_text.SMALL,
    "model.num_layers": 1,
    "mesh.fsdp": 2,
    "model.dropout_rate": 0.1,
    "train.num_steps": 4,
    "train.eval_every_steps": 4,
    "train.eval_steps": 1,
}


@pytest.mark.full  # a minute
def test_two_processes_train_the_quickstart_model(tmp_path_factory, tmp_path):
    """As one process does to 1e-5; stopped and resumed, to the last bit."""
    pytest.importorskip("nupunkt")
    caches = small_text.make_cache(tmp_path_factory.mktemp("token_cache"))
    values = {**FEW_STEPS, "data.cache_dir": caches}
    arguments = [f"--config.{path}={value}" for path, value in values.items()]

    def run(name, *, output, codes=(0, 0), **options):
        with processes.start(
            tmp_path / output,
            *arguments,
            config=ROOT / "etc_jax/configs/quickstart/quickstart.py",
            workdir=tmp_path / name,
            **options,
        ) as started:
            assert started.wait() == list(codes), started.all_output()

    run("one", output="one", codes=[0], each=((),), devices=8)
    run("two", output="two")
    run("resumed", output="until_3", codes=(17, 17), STOP="0:1")
    assert processes.saved_steps(tmp_path / "resumed") == [3]
    run("resumed", output="to_the_end")
    for kind, names in (
        ("train", ("loss", "mlm_loss", "cpc_loss", "grad_norm")),
        ("eval", ("loss", "mlm_loss", "cpc_loss")),
    ):
        for name in names:
            one, two, resumed = (
                [x[name] for x in processes.metrics(tmp_path / folder, kind)]
                for folder in ("one", "two", "resumed")
            )
            np.testing.assert_allclose(two, one, rtol=1e-5)
            assert resumed == two
    one, two, resumed = (
        json.loads((tmp_path / folder / "final_report.json").read_text())
        for folder in ("one", "two", "resumed")
    )
    assert resumed == two and two.keys() == one.keys()
    assert two["cpc_pool_sentences"] == 256


@pytest.mark.full
def test_twenty_stops_of_two_processes_change_no_bit(start, tmp_path):
    """Signals to one and the other in turn, at random steps; 25 starts of two."""
    # A device each: nothing here is about the devices of one process.
    start = functools.partial(start, "--config.train.num_steps=100", devices=1)
    with start(output="whole", workdir=tmp_path / "whole") as started:
        assert started.wait() == [0, 0], started.all_output()
    rng = np.random.default_rng(5)
    # A signal is followed two steps later, so stops are three steps apart at least.
    stops = 3 + 3 * np.sort(rng.choice(np.arange(31), 20, replace=False))
    for number, stop in enumerate(stops):
        variable = f"{number % 2}:{stop - 2}"
        with start(output=f"until_{stop}", STOP=variable) as started:
            assert started.wait() == [17, 17], started.all_output()
        assert processes.saved_steps(tmp_path / "run")[-1] == stop
    with start(output="end") as started:
        assert started.wait() == [0, 0], started.all_output()
    assert timeless(tmp_path / "run") == timeless(tmp_path / "whole")
    states = []
    for name in ("run", "whole"):
        result = train_and_evaluate(
            toy_job.config(train__num_steps=100), tmp_path / name
        )
        states.append(toy_job.digest(result.state))
    assert states[0] == states[1]
    print(f"two processes: {len(stops)} of {len(stops)} stops bitwise equal")
