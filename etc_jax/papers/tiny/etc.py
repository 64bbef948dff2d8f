"""Tables 2 to 4 of the ETC paper by models of two layers, on invented records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row, find, variants_of
from etc_jax.papers.tiny import steps
from etc_jax.papers.tiny.steps import DEV, TRAIN

FINAL_REPORT = "final_report.json"
MODEL = {
    "model.embed_dim": 64,
    "model.mlp_dim": 128,
    "model.radius": 16,
    "optimizer.weight_decay": 0.01,
}
# The quickest form for inputs of up to 256 tokens.
DENSE = {"model.attention": "dense"}


@dataclasses.dataclass(frozen=True)
class Questions:
    """Invented records of a data set.

    Attributes:
      task: of `etc-jax prepare`.
      maker: flags of `etc-jax synthetic`.
      count, dev_count: records to learn from, and those that are scored.
      vocabulary: ids, and flags of how it is learnt from the first.
      long, global_: lengths of an input.
      end: of the files' names.
      dev_maker: flags of `etc-jax synthetic` for the records that are scored alone.
    """

    task: str
    maker: tuple[str, ...]
    count: int
    dev_count: int
    vocabulary: tuple[int, tuple[str, ...]]
    long: int
    global_: int
    end: str = ".json"
    dev_maker: tuple[str, ...] = ()

    def file(self, chain: Chain, part: str) -> str:
        """Records, `TRAIN` or `DEV`."""
        count, more = {
            TRAIN: (self.count, ()),
            DEV: (self.dev_count, self.dev_maker),
        }[part]
        flags = *self.maker, *more
        return steps.invented(
            chain, f"etc/{self.task}", part, count, *flags, end=self.end
        )

    def prepared(
        self,
        chain: Chain,
        kind: str = "",
        flags: tuple[str, ...] = (),
        train_flags: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Inputs of both files, as fields of a config.

        The vocabulary is that of the inputs without flags.

        Args:
          chain: to add to.
          kind: names inputs that are made by flags.
          flags: of `etc-jax prepare`, in place of the lengths.
          train_flags: further ones, of the inputs that are learnt.
        """
        size, how = self.vocabulary
        lengths = f"--long_length={self.long}", f"--global_length={self.global_}"
        folder, task = f"etc/{self.task}", f"--task={self.task}"
        learnt = (f"--vocab_size={size}", *how)
        words = chain.do(
            "prepare",
            f"{folder}/train",
            task,
            *learnt,
            *lengths,
            self.file(chain, TRAIN),
        )
        vocabulary, flags = f"--tokenizer={words}", flags or lengths
        train = words
        if kind:
            argv = task, vocabulary, *flags, *train_flags, self.file(chain, TRAIN)
            train = chain.do("prepare", f"{folder}/train_{kind}", *argv)
        out = f"{folder}/dev_{kind}" if kind else f"{folder}/dev"
        dev = chain.do("prepare", out, task, vocabulary, *flags, self.file(chain, DEV))
        return self.sizes(self.long, self.global_) | {
            "data.paths": (train,),
            "data.validation_paths": (dev,),
        }

    def sizes(self, long: int, global_: int) -> dict[str, int]:
        """Fields of a config, for inputs of some lengths in this vocabulary."""
        size, _ = self.vocabulary
        lengths = {"data.long_length": long, "data.global_length": global_}
        return {"data.vocab_size": size, "model.vocab_size": size} | lengths


_WHOLE = ("--whole_words",)
WIKIHOP = Questions(
    "wikihop", ("--task=teachers",), 10_000, 512, (244, _WHOLE), long=96, global_=24
)
HOTPOTQA = Questions(
    "hotpotqa",
    (
        *("--task=hotpotqa", "--hops=1", "--contexts=4", "--facts=2", "--words=90"),
        *("--kinds=person", "--asks=teacher", "--wordings=1", "--pronouns=1"),
        *("--comparisons=0", "--masked"),
    ),
    *(4000, 512, (387, _WHOLE)),
    long=128,
    global_=32,
)
OPENKP = Questions(
    "openkp",
    ("--task=openkp", "--keyphrases=1-2", "--others=3", "--mentions=2", "--words=0"),
    *(2560, 200, (1000, ())),
    long=256,
    global_=32,
    end=".jsonl",
)
# Of a short window; a long one has four times as many.
WINDOW = 64
NATURAL_QUESTIONS = Questions(
    "natural_questions",
    (
        *("--task=natural_questions", "--hops=1", "--contexts=3", "--facts=2"),
        *("--kinds=town", "--wordings=1", "--pronouns=1", "--nulls=0.25"),
        *("--yes_no=0", "--long_only=0", "--asks=region", "--masked", "--blocks=P"),
        f"--apart={WINDOW - 20}",
    ),
    # All words but the names that are asked about: a smaller vocabulary would make
    # other names [UNK] too.
    *(8000, 200, (371, _WHOLE)),
    long=4 * WINDOW,
    global_=40,
    end=".jsonl.gz",
    # As official: an answer is gold if two annotators gave it.
    dev_maker=("--annotators=5",),
)


def _name(*configs: str) -> str:
    """Of a run: its variants, and those of the run before it."""
    return "_from_".join("-".join(variants_of(x)) or "plain" for x in configs if x)


def _tiny(config: str, *without: str) -> str:
    """The same, small, but for some variants."""
    variants = [x for x in variants_of(config) if x not in without]
    return f"{config.partition(':')[0]}:{','.join([*variants, 'tiny'])}"


def _pretrained(chain: Chain, questions: Questions, config: str) -> str:
    """A run on the documents of the records; one seed serves all."""
    folder, maker = f"etc/{questions.task}", (*questions.maker, "--texts")
    texts, dev_texts = (
        steps.invented(chain, folder, part, count, *maker, end="_texts.jsonl")
        for part, count in ((TRAIN, questions.count), (DEV, questions.dev_count))
    )
    words = questions.prepared(chain)["data.paths"][0]
    fields = {
        **MODEL,
        **DENSE,
        **questions.sizes(questions.long, questions.global_),
        "train.batch_size": 32,
        "data.source": "jsonl",
        "data.paths": (texts,),
        "data.validation_paths": (dev_texts,),
        "data.tokenizer": f"{words}/tokenizer.json",
        "data.cache_dir": chain.root / folder / "texts",
        "data.max_sentence_tokens": 32,
    }
    before = f"{folder}/before-{_name(_tiny(config))}"
    argv = _tiny(config), 0, 200, *steps.changes(fields)
    return steps.trained(chain, before, *argv)


def table3(chain: Chain, row: Row, seed: int) -> dict[str, Measured] | None:
    """Questions over documents; see `Study`."""
    if not row.pretrain.startswith("etc_base"):
        return None
    measured = {}
    for questions, num_steps, flags in (
        (WIKIHOP, 300, ()),
        # The paper's threshold, not the best of these very records.
        (HOTPOTQA, 120, ("--threshold=0.4",)),
    ):
        task = questions.task
        fields = {
            **MODEL,
            **DENSE,
            **questions.prepared(chain),
            "train.batch_size": 32,
            "checkpoint.init_from": _pretrained(chain, questions, row.pretrain),
            "checkpoint.init_from_only": ("encoder",),
        }
        run = steps.trained(
            *(chain, f"etc/{task}/{_name(row.runs[task], row.pretrain)}"),
            *(_tiny(row.runs[task]), seed, num_steps, *steps.changes(fields)),
        )
        file = questions.file(chain, DEV)
        measured |= steps.scored(chain, run, "etc.table3", task, *flags, file)
    return measured


def table4(chain: Chain, row: Row, seed: int) -> dict[str, Measured] | None:
    """Keyphrases of pages, from nothing; see `Study`."""
    config = row.runs.get("openkp", "")
    if not config.startswith("etc_base_openkp"):
        return None
    if {"512", "fixed_blocks"} & {*variants_of(config)}:
        return None
    if row.pretrain.startswith("etc_base_pretrain:no_cpc"):
        return None  # without pre-training the row after it
    fields = {
        **MODEL,
        **DENSE,
        **OPENKP.prepared(chain),
        "optimizer.learning_rate": 2e-3,
        "train.batch_size": 32,
    }
    run = steps.trained(
        *(chain, f"etc/openkp/{_name(config)}", _tiny(config)),
        *(seed, 48, *steps.changes(fields)),
    )
    file = OPENKP.file(chain, DEV)
    return steps.scored(chain, run, "etc.table4", "openkp", file)


# Rows of table 2 -> how they read an article, of those that differ without
# pre-training.
ARTICLES: Mapping[str, str] = {
    "BERT-base": "bert",
    "ETC 512: shared, no CPC, no hard g2l": "short",
    "ETC 4096: shared, no hard g2l": "long",
    "ETC 4096: shared": "long",
    "ETC 4096: -": "long",
    "ETC 4096: 2x local radius": "long",
    "ETC 4096: 2x relative vocab": "long",
}
_TOKENS = 4096  # of a step
# Steps that see each input once; short windows without an answer are drawn from.
_STEPS = {"bert": 760, "short": 760, "long": 500}
_DRAWN = ("--null_share=0.25", "--unanswerable_share=0.25")


def table2(chain: Chain, row: Row, seed: int) -> dict[str, Measured] | None:
    """Articles in one long window, or in short ones, from nothing; see `Study`."""
    if row.name not in ARTICLES:
        return None
    how, task = ARTICLES[row.name], "natural_questions"
    config = row.runs[task]
    long, global_ = NATURAL_QUESTIONS.long, NATURAL_QUESTIONS.global_
    kind, flags, model = "", (), {}
    if how != "long":
        long, kind = WINDOW, how
        flags = (f"--long_length={WINDOW}", f"--global_length={global_}")
    if how == "bert":
        global_, model = 1, {"model.radius": WINDOW, "model.max_positions": WINDOW}
        flags = (f"--long_length={WINDOW}", "--global_length=1", "--flat")
    if "2x_radius" in variants_of(config):
        model = {"model.radius": 2 * MODEL["model.radius"]}
    fields = {
        **MODEL,
        **NATURAL_QUESTIONS.prepared(chain, kind, flags, _DRAWN if kind else ()),
        **NATURAL_QUESTIONS.sizes(long, global_),
        **model,
        **DENSE,
        "optimizer.learning_rate": 2e-3,
        "train.batch_size": _TOKENS // long,
    }
    run = steps.trained(
        *(chain, f"etc/{task}/{how}-{_name(config)}"),
        _tiny(config, "512"),  # of the lengths alone, which are given above
        *(seed, _STEPS[how], *steps.changes(fields)),
    )
    file = NATURAL_QUESTIONS.file(chain, DEV)
    return steps.scored(chain, run, "etc.table2", task, file)


def cpc(chain: Chain, row: Row, seed: int) -> dict[str, Measured]:
    """The quickstart's model, with CPC and without; see `Study`."""
    variant = "" if row.name == "MLM + CPC" else ":no_cpc"
    run = f"own/cpc{variant.replace(':', '-')}_seed{seed}"
    cache = f"--config.data.cache_dir={chain.root / 'own/cpc_texts'}"
    config = f"--config=quickstart{variant}"
    chain.do("train", run, config, cache, f"--config.train.seed={seed}")
    return {
        column: metric.at(run, "evaluation" if column == "mlm_loss" else FINAL_REPORT)
        for column, metric in find("own.cpc").measured.items()
    }


_MODEL = "ETC of 2 layers of 64 with a radius of 16, float32."
STUDIES = {
    "own.cpc": Study(
        "The quickstart: an ETC of 3 layers of 192, 350 steps of 8 rows of 512 tokens "
        "of the documentation of Python.",
        cpc,
    ),
    "etc.table2": Study(
        "Invented articles of three towns, a paragraph each, whose name stands further "
        "from what is asked than a short window of 64 tokens reaches; a quarter have "
        f"no answer. {_MODEL} All from random weights, without pre-training: rows that "
        "differ in that alone are left out. 8,000 questions, each once; 256 tokens for "
        "4096, windows of 64 for 512 and BERT. 200 other articles for the score.",
        table2,
    ),
    "etc.table3": Study(
        "Who is the teacher of somebody? Four invented documents tell teacher and "
        "rival of a person each; all names but the one that is asked about are masks, "
        f"drawn anew for each record. {_MODEL} 200 steps of pre-training on the "
        "documents, with one seed, then 300 batches of 32 (WikiHop) and 120 (HotpotQA, "
        "whose sentences say she or he). 512 other records for the score; of four "
        "candidates a guess is right for 25 %.",
        table3,
    ),
    "etc.table4": Study(
        "Invented pages, which say each phrase three times: in an element of its own, "
        "and in two sentences. Only elements of keyphrases are large, high up and in "
        f"the middle. {_MODEL} All from random weights, 48 batches of 32. 200 other "
        "pages for the score.",
        table4,
    ),
}
