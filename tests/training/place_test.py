import pytest

from etc_jax.training.errors import UserError
from etc_jax.training.hosts.process_rank import detect

EXPLICIT = {
    "JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234",
    "JAX_NUM_PROCESSES": "4",
    "JAX_PROCESS_ID": "3",
}
TORCHRUN = {
    "MASTER_ADDR": "node7",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "8",
    "RANK": "5",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
}


def test_explicit_variables_come_first():
    place = detect({**TORCHRUN, **EXPLICIT})
    assert (place.coordinator, place.processes, place.process) == (
        "10.0.0.1:1234",
        4,
        3,
    )
    assert place.devices is None


@pytest.mark.parametrize(
    "changes, address, devices",
    [
        ({}, "node7:29500", (1,)),
        # torchrun's own store listens on the port.
        ({"TORCHELASTIC_USE_AGENT_STORE": "True"}, "node7:29501", (1,)),
        # One process a machine: it has all of the machine's accelerators.
        ({"LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}, "node7:29500", None),
    ],
)
def test_torchrun_variables(changes, address, devices):
    place = detect({**TORCHRUN, **changes})
    assert (place.coordinator, place.processes, place.process) == (address, 8, 5)
    assert place.devices == devices


def test_without_variables_jax_looks():
    assert detect({"PATH": "p"}) is None
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
    assert detect(slurm) is None
    alone = detect({**slurm, "SLURM_NTASKS": "1"})
    assert (alone.processes, alone.process) == (1, 0)


WRONG = [
    ({"JAX_PROCESS_ID": None}, "JAX_PROCESS_ID is missing"),
    ({"JAX_NUM_PROCESSES": ""}, "JAX_NUM_PROCESSES is missing"),
    ({"JAX_COORDINATOR_ADDRESS": None}, "JAX_COORDINATOR_ADDRESS is missing"),
    ({"JAX_COORDINATOR_ADDRESS": "host"}, "is 'host'; expected host:port"),
    ({"JAX_COORDINATOR_ADDRESS": "host:0"}, "is 'host:0'; expected host:port"),
    ({"JAX_COORDINATOR_ADDRESS": ":80"}, "is ':80'; expected host:port"),
    ({"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES is 'two'"),
    ({"JAX_PROCESS_ID": "-1"}, "JAX_PROCESS_ID is '-1'"),
    ({"JAX_PROCESS_ID": "4"}, "JAX_PROCESS_ID is 4, but JAX_NUM_PROCESSES is 4"),
    ({"JAX_NUM_PROCESSES": "0"}, "JAX_NUM_PROCESSES is 0"),
]


@pytest.mark.parametrize("changes, message", WRONG)
def test_wrong_variables_are_named(changes, message):
    environ = {k: v for k, v in {**EXPLICIT, **changes}.items() if v is not None}
    with pytest.raises(UserError) as caught:
        detect(environ)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"])
def test_half_of_torchrun_is_named(name):
    environ = {k: v for k, v in TORCHRUN.items() if k != name}
    with pytest.raises(UserError, match=f"{name} is missing"):
        detect(environ)


def test_a_wrong_port_of_torchrun_is_named():
    with pytest.raises(UserError, match="MASTER_PORT is 'x'; expected a whole number"):
        detect({**TORCHRUN, "MASTER_PORT": "x", "TORCHELASTIC_USE_AGENT_STORE": "True"})
