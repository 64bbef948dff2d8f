"""A whole training step of several models over the length of the input.

    python -m benchmarks step_lengths --platform=cuda --dtype=bfloat16 --out=steps.json
    python -m benchmarks step_lengths --size=small --lengths=256,512,1024,2048,4096
    python -m benchmarks step_lengths --models=sled,led --rounds=0 \
        --lengths=1024,2048,4096,8192,16384
    python -m benchmarks step_lengths --topology=v5e:1x1 --lengths=4096

Forward pass, backward pass and update of one input by AdamW, without dropout, by
`make_train_step`, as the training loop calls it. The models:

    etc    masked words; a sixteenth as many global tokens, 512 at most, as in the
           paper's figure 4; without CPC
    bert   masked words; every token sees every other
    led    a target of --target_length tokens is written; the first token is global
    sled   likewise, BART in windows of 256 tokens behind a prefix of 64

--size=small is 4 layers of 256 (on each side) and 8,192 words. The first model is the
reference of ratios, and where another is as fast as it is told. Of each step its FLOPs
(all matrix products, recomputation included) and its memory as XLA plans it are told
too: parameters and moments, updated in place, and what lies between. With --rounds=0
nothing is run, and with --topology it is compiled for a TPU that need not be there. A
step that does not fit into the device is not timed. A busy machine is refused (exit
code 3).
"""

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import machine, report
from benchmarks.kit.harness import Side
from benchmarks.kit.memory import MIB
from etc_jax import structure as st
from etc_jax.config.sections import OptimizerConfig
from etc_jax.layers.stack import REMAT_POLICIES
from etc_jax.models.bert import FAMILY as BERT
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.etc import config as etc_config
from etc_jax.models.family import sizes as model_sizes
from etc_jax.models.sled.config import SledConfig
from etc_jax.objectives.masked_lm import MaskedLm
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.objectives.seq2seq import Seq2Seq
from etc_jax.training.optimizers.optimizer import make_optimizer
from etc_jax.training.preflight import device_memory, hardware, topology
from etc_jax.training.preflight.flops import matmul_flops
from etc_jax.training.state import TrainState
from etc_jax.training.step import make_train_step

MODELS = ("etc", "bert", "led", "sled")
LENGTHS = (512, 1024, 2048, 4096, 8192)
WORDS = (5, 8192)
SMALL = {"num_layers": 4, "embed_dim": 256, "num_heads": 4, "mlp_dim": 1024}
SMALL |= {"vocab_size": WORDS[1]}
MLM_SHARE = 0.15


class Objectives:
    """The models at one length: (objective, batch of one input) of each, by its name.

    Args:
      args: of the command line.
      length: of the input.
    """

    def __init__(self, args: argparse.Namespace, length: int):
        self.length, self.target_length = length, args.target_length
        self.is_small = args.size == "small"
        self.common = {"dtype": args.dtype, "remat_policy": args.remat_policy}
        self.common["logits_chunk_length"] = 128
        self._rng = np.random.default_rng(0)

    def _with(self, config: Any, **changes: Any) -> Any:
        small = {}
        if self.is_small:
            both = {"num_decoder_layers": SMALL["num_layers"]}
            small = SMALL | (both if hasattr(config, "num_decoder_layers") else {})
        return dataclasses.replace(config, **{**small, **self.common, **changes})

    def _words(self, length: int) -> np.ndarray:
        return self._rng.integers(*WORDS, (1, length)).astype(np.int32)

    def _masked(self) -> dict[str, np.ndarray]:
        count = round(MLM_SHARE * self.length)
        places = self._rng.choice(self.length, count, replace=False)
        return {
            "mlm_positions": np.sort(places)[None].astype(np.int32),
            "mlm_targets": self._words(count),
            "mlm_weights": np.ones((1, count), np.float32),
            "mlm_overflow": np.zeros(1, np.int32),
        }

    def etc(self) -> tuple[Any, dict[str, Any]]:
        n = self.length
        g = max(1, min(n // 16, 512))
        links = (np.arange(n) * g // n).astype(np.int16)[None, :, None]
        real = np.ones((1, n), np.int32), np.ones((1, g), np.int32)
        tokens = {"long_tokens": self._words(n), "global_tokens": real[1]}
        tokens["structure"] = st.Structure(*real, links)
        job = Pretraining(self._with(etc_config.base()), MlmCpcConfig(cpc_weight=0.0))
        return job, tokens | self._masked()

    def bert(self) -> tuple[Any, dict[str, Any]]:
        ids = np.ones((1, self.length), np.int32)
        tokens = {"tokens": self._words(self.length), "example_ids": ids}
        config = self._with(BERT.sizes["base"], max_length=self.length)
        return MaskedLm(config, BERT.masked_lm), tokens | self._masked()

    def led(self) -> tuple[Any, dict[str, Any]]:
        job, pair = self._pair(model_sizes()["led_base"])
        return job, pair | {"global_index": np.zeros((1, 1), np.int32)}

    def sled(self) -> tuple[Any, dict[str, Any]]:
        windows = {"window": 256, "prefix_length": 64, "windows_at_once": 16}
        sled = SledConfig(input_length=self.length, **windows)
        return self._pair(model_sizes()["bart_base"], sled=sled)

    def _pair(self, config: Any, **changes: Any) -> tuple[Any, dict[str, Any]]:
        pair = {}
        for name, count in ("input", self.length), ("target", self.target_length):
            pair[f"{name}_tokens"] = self._words(count)
            pair[f"{name}_example_ids"] = np.ones((1, count), np.int32)
        return Seq2Seq(self._with(config, **changes), EncoderDecoder), pair


class Step:
    """A compiled training step, which carries its state from call to call.

    Args:
      job: the objective.
      batch: that every call learns.
      device: to compile for.

    Attributes:
      flops: matrix FLOPs of a call.
      memory: of a call; None where the compiler refused it as too large.
      needed: bytes of the device.
    """

    def __init__(self, job: Any, batch: Mapping[str, Any], device: jax.Device):
        tx = make_optimizer(OptimizerConfig(), lambda step: 1e-4)

        def init(rng):
            params = job.init(rng)
            return TrainState(jnp.zeros((), jnp.int32), params, tx.init(params))

        def loss(params, batch, rng, _):
            return job.loss(params, batch, rng, True)

        step = make_train_step(
            loss, tx, loss_weights=job.loss_weights, dtype=job.model.dtype
        )
        self._args_fn = lambda: (jax.jit(init)(jax.random.key(0)), batch)
        layout = jax.sharding.SingleDeviceSharding(device)
        shapes = jax.eval_shape(lambda: (*self._args_fn(), jax.random.key(1)))
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout), shapes
        )
        traced = jax.jit(step, donate_argnums=0).trace(*shapes)
        self.flops = matmul_flops(traced.jaxpr)
        self._call = device_memory.compile_step(traced.lower())
        if isinstance(self._call, device_memory.TooLarge):
            self.memory, self.needed = None, self._call.needed
        else:
            self.memory = device_memory.of(self._call)
            self.needed = self.memory.total
        limit = hardware.memory_limit(device)
        self.fits = self.memory is not None and (not limit or self.needed <= limit)

    def begin(self) -> "Step":
        """Makes the state, after which it can be run."""
        self._state, self._batch = self._args_fn()
        return self

    def run(self) -> dict[str, Any]:
        """One step, waited for."""
        rng = jax.random.key(1)
        self._state, metrics = self._call(self._state, self._batch, rng)
        return jax.block_until_ready(metrics)

    def arrays(self, metrics: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """See `harness.Side`."""
        return {"loss": np.asarray(metrics["loss"])}

    @property
    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        memory = self.memory and dataclasses.asdict(self.memory)
        sizes = {"total_bytes": self.needed, "memory": memory}
        return {"flops": self.flops, "fits": self.fits, **sizes}


def measure_at(args: argparse.Namespace, length: int, device) -> dict[str, Any]:
    """FLOPs, memory and times of one length, printed and ready for JSON."""
    steps = {
        x: Step(*getattr(Objectives(args, length), x)(), device) for x in args.models
    }
    head = ["model", "GFLOPs a step", "MiB", "fits"]
    lines = [
        [x, f"{s.flops / 1e9:.1f}", f"{(s.needed or 0) / MIB:.0f}", str(s.fits)]
        for x, s in steps.items()
    ]
    print(f"\n{length} tokens\n{report.table(head, lines)}", flush=True)
    found = {"length": length, "steps": {x: s.values for x, s in steps.items()}}
    timed = [x for x in args.models if steps[x].fits]
    if args.rounds and timed:
        timings = report.compared(
            f"a step of {length} tokens",
            [Side.of(x, steps[x].begin()) for x in timed],
            reference=timed[0],
            rounds=args.rounds,
            tolerance=0.0,
        )
        found["times"] = report.timing_rows(timings)
    return found


def equal_at(lengths: Sequence[int], ratios: Sequence[float]) -> float | None:
    """The length at which a ratio of times passes 1; None: at none that is between.

    On lines through the logarithms of both.
    """
    points = zip(np.log(lengths), np.log(ratios), strict=True)
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        if y * next_y < 0:
            return float(np.exp(x + (next_x - x) * y / (y - next_y)))
    return None


def measure_all(args: argparse.Namespace) -> dict[str, Any]:
    """All lengths, and where models are as fast as the first one."""
    device = jax.devices()[0]
    if args.topology:
        device = topology.devices(args.topology)[0]
    results = [measure_at(args, n, device) for n in args.lengths]
    equal = {}
    for model in args.models[1:]:
        ratios = {
            x["length"]: row["ratio"]
            for x in results
            for row in x.get("times", ())
            if row["name"] == model and x["times"][0]["name"] == args.models[0]
        }
        equal[model] = equal_at([*ratios], [*ratios.values()])
        if equal[model]:
            print(f"{model} is as fast as {args.models[0]} at {equal[model]:.0f}")
    return {"device": device.device_kind, "results": results, "equal_at": equal}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.timing_parser("step_lengths", __doc__, rounds=5)
    add = options.add_argument
    add("--models", type=report.names(MODELS), default=("etc", "bert"))
    add("--lengths", type=report.integers, default=LENGTHS)
    add("--size", choices=("base", "small"), default="base")
    add("--target_length", type=int, default=512)
    add("--remat_policy", choices=tuple(REMAT_POLICIES), default="attention")
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--platform", default="cpu", help="of jax: cpu, cuda or tpu")
    add("--topology", help="such as v5e:1x1; nothing is run")
    args = options.parse_args(argv)
    machine.use(args.platform)
    if args.topology or not args.rounds:
        args.rounds = 0
        return report.run(options, args, lambda: (measure_all(args), 0))
    return report.run_quiet(
        options, args, lambda: (measure_all(args), ()), dtype=args.dtype
    )
