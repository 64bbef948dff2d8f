"""Training and evaluation that are stood in for, and what two configs differ in."""

import json
import pathlib
import types

import bert_reference as reference
import finetuned_run

from etc_jax import config as config_lib
from etc_jax.training import workdir as workdir_lib

TINY_BERT = reference.CONFIG | {
    "vocab_size": len(finetuned_run.PIECES),
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "max_position_embeddings": 256,
}


def flat(config):
    """{dotted path: value} of a checked config."""
    return config_lib.flat_items(config_lib.to_dict(config))


def differing(one, other):
    """Fields in which two configs differ."""
    one, other = flat(one), flat(other)
    return {name for name in one if one[name] != other[name]}


class Trained(list):
    """Configs that were trained, in their order.

    Attributes:
      score_fn: from a config to the share that its model gets right.
      evaluated: arguments of `etc-jax evaluate` for each run.
      exit_code: of `etc-jax evaluate`.
    """

    def __init__(self):
        super().__init__()
        self.score_fn = lambda config: 0.5
        self.evaluated = []
        self.exit_code = 0

    def train(self, config, folder):
        self.append(config)
        folder.mkdir(parents=True)
        workdir_lib.record(config, folder)
        last = self.score_fn(config)
        reports = (("eval", 1, 0.2), ("train", 2, 0.9))
        lines = [
            {"kind": kind, "step": step, **finetuned_metrics(share)}
            for kind, step, share in (*reports, ("eval", config.train.num_steps, last))
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return types.SimpleNamespace(exit_code=0, step=config.train.num_steps)

    def evaluate(self, argv):
        self.evaluated.append(argv)
        if self.exit_code:
            return self.exit_code
        model, out = (x.partition("=")[2] for x in argv[:2])
        lines = pathlib.Path(model, "metrics.jsonl").read_text().splitlines()
        pathlib.Path(out).mkdir(exist_ok=True)
        scores = {"metrics": json.loads(lines[-1])}
        pathlib.Path(out, "scores.json").write_text(json.dumps(scores))
        return 0


def finetuned_metrics(share):
    """A share under all names that evaluations and official scores have."""
    names = "accuracy span_accuracy short_accuracy joint_f1 f1 sp_f1 F1@3 P@1 R@3"
    names += " exact_match average-f1 long-best-threshold-f1 short-best-threshold-f1"
    return dict.fromkeys(names.split(), share)
