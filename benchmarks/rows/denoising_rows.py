"""BART-LS's ablations of attention and corpora, at a size that trains on a CPU.

    python -m benchmarks denoising_rows --study=corpora --paths='books/*.jsonl.gz' \\
        --out=corpora.json
    python -m benchmarks denoising_rows --study=attention --paths='books/*.jsonl.gz' \\
        --out=attention.json

Trains `--config=denoising:short`, made smaller, on long documents (JSON lines with
`text`), of each of which the end is kept for validation; the loss is that of missing
tokens of validation text, in nats. Rows of --study=corpora (Xiong et al. 2022, table
2):

  long    the documents as they are
  random  passages of them; packing puts together those whose lengths fit
  linked  passages, each followed by the most similar ones (`etc-jax corpora link`)

Each is evaluated on its own validation text, as in section 3.3, and on that of the
others. Rows of --study=attention (table 1) are what the encoder sees, of the long
documents: blocks, pooling (blocks and averages), overlap (blocks that overlap), globals
(blocks with global tokens).

Finished runs are not trained again. Arguments of the form --config.A.B=VALUE go to
every run.
"""

from __future__ import annotations

import argparse
import functools
import glob
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit import finetuning_runs, rows
from etc_jax.base.whole_files import whole
from etc_jax.cli import corpora
from etc_jax.config import Config
from etc_jax.configs.text_to_text import denoising
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers import wordpiece_training
from etc_jax.tasks.synthetic.maker import write_records

STUDIES = {
    "corpora": ("long", "random", "linked"),
    "attention": ("blocks", "pooling", "overlap", "globals"),
}
# Perplexities of validation text after 100,000 steps (section 3.3).
PAPER = {"random": {"perplexity": 12.2}, "linked": {"perplexity": 10.5}}
MODEL = {"embed_dim": 64, "mlp_dim": 256, "num_layers": 2, "num_decoder_layers": 2}
WORDS = 2048
PASSAGE = 40  # words, at least, in whole paragraphs
LENGTH, TARGET = 512, 128
VALIDATION = 0.1
BLOCK = 64
_ATTENTION: Mapping[str, Mapping[str, Any]] = {
    "blocks": {"pooling_layers": 0},
    "pooling": {"pooling_layers": 1},
    "overlap": {"pooling_layers": 0, "overlap": True},
    "globals": {"pooling_layers": 0, "num_globals": 4},
}
SIDES = ("train", "validation")


def passages(paragraphs: Sequence[str], words: int) -> Iterator[list[str]]:
    """Runs of whole paragraphs, each ended by the one that makes it long enough."""
    run: list[str] = []
    count = 0
    for paragraph in paragraphs:
        run.append(paragraph)
        count += len(paragraph.split())
        if count >= words:
            yield run
            run, count = [], 0
    if run:
        yield run


def write_corpora(
    paths: Sequence[str], folder: pathlib.Path, tokenizer: pathlib.Path
) -> dict[str, dict[str, pathlib.Path]]:
    """{corpus: {side: file}}, and a vocabulary of what is learnt from, made once.

    Raises:
      ValueError, OSError: if the documents cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        name: {side: folder / f"{name}_{side}.jsonl" for side in SIDES}
        for name in STUDIES["corpora"]
    }
    # Linked texts are written last.
    if all(file.exists() for file in files["linked"].values()):
        return files
    documents = [list(document.paragraphs) for document in read_documents(paths)]
    if not tokenizer.exists():
        texts = [text for document in documents for text in _side(document)[0]]
        with whole(tokenizer) as part:
            wordpiece_training.train(texts, vocab_size=WORDS).save(part)
    for i, side in enumerate(SIDES):
        texts = [_side(paragraphs)[i] for paragraphs in documents]
        short = [run for text in texts for run in passages(text, PASSAGE)]
        for name, found in (("long", texts), ("random", short)):
            joined = ({"text": "\n".join(paragraphs)} for paragraphs in found)
            write_records(files[name][side], joined, lines=True)
        # A window has a first and a last token besides.
        argv = ["link", f"--length={LENGTH - 2}", f"--tokenizer={tokenizer}"]
        argv += [
            "--overwrite",
            f"--out={files['linked'][side]}",
            str(files["random"][side]),
        ]
        if corpora.main(argv):
            raise ValueError(f"{files['random'][side]} was not linked; see above")
    return files


def _side(paragraphs: list[str]) -> tuple[list[str], list[str]]:
    """(what is learnt from, what is for validation) of a document."""
    border = round(len(paragraphs) * (1 - VALIDATION))
    return paragraphs[:border], paragraphs[border:]


def config_of(
    row: str,
    seed: int,
    files: Mapping[str, pathlib.Path],
    args: argparse.Namespace,
    changes: Sequence[str],
) -> Config:
    """The checked config of a run.

    Args:
      row: of `STUDIES`.
      seed: of parameters, order and what is missing.
      files: of each side.
      args: of the command line.
      changes: see `finetuning_runs.changed`.

    Raises:
      ValueError: if a change does not fit.
    """
    made = denoising.get_config("short")
    made.model.update(MODEL, vocab_size=WORDS + 128, block_size=BLOCK)
    # That of BART is for widths of 768: narrow layers would hardly begin to learn.
    made.model.update(_ATTENTION.get(row, _ATTENTION["pooling"]), initializer_range=0.1)
    made.model.update(dropout_rate=0.0)
    train, validation = (str(files[side]) for side in SIDES)
    made.data.update(
        source="jsonl",
        paths=(train,),
        validation_paths=(validation,),
        tokenizer=str(args.workdir / "tokenizer.json"),
        vocab_size=WORDS,
        cache_dir=str(args.workdir / "caches"),
        input_length=LENGTH,
        target_length=TARGET,
        # Linked texts stay whole. One way for all: of 512 tokens, the loss of best-fit
        # windows is 0.1 nats below that of concatenated ones, whatever the corpus.
        packing="best_fit",
    )
    finetuning_runs.set_training(made, seed=seed, steps=args.steps)
    made.optimizer.learning_rate = 2e-3
    made.train.update(
        batch_size=16, compile_cache_dir=str(args.workdir / "compile_cache")
    )
    return finetuning_runs.changed(made, changes)


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Makes the corpora and their vocabulary.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    known = STUDIES[args.study]
    args.rows = args.rows or known
    if wrong := [row for row in args.rows if row not in known]:
        raise ValueError(f"--rows has {wrong[0]!r}; --study={args.study} has {known}")
    args.workdir = args.workdir or pathlib.Path("runs/denoising_rows")
    paths = sorted(glob.glob(args.paths)) or [args.paths]
    args.workdir.mkdir(parents=True, exist_ok=True)
    tokenizer = args.workdir / "tokenizer.json"
    files = write_corpora(paths, args.workdir / "corpora", tokenizer)

    def config(row: str, seed: int) -> Config:
        return config_of(row, seed, files.get(row, files["long"]), args, changes)

    def scores(made: Config, folder: pathlib.Path) -> dict[str, float]:
        evaluate = functools.partial(
            finetuning_runs.validation_loss, params=finetuning_runs.params_of(folder)
        )
        aside = folder / "evaluation"
        found = {"loss": evaluate(made, aside)}
        for other in known if args.study == "corpora" else ():
            found[f"of {other}"] = evaluate(config(other, made.train.seed), aside)
        return found | {"perplexity": float(np.exp(found["loss"]))}

    beside = tuple(f"of {row}" for row in known) if args.study == "corpora" else ()
    return rows.Study(
        args.workdir / args.study,
        config,
        scores,
        measure="loss",
        metric="loss",
        scale=1.0,
        form=".3f",
        beside=(*beside, "perplexity"),
        paper=PAPER,
        pairs=tuple((row, known[0]) for row in known[1:]),
        about={"study": args.study, "documents": paths, "steps": args.steps},
    )


def _add(add) -> None:
    add("--study", choices=STUDIES, required=True)
    add("--paths", required=True, help="files, or a glob")
    add("--rows", type=lambda text: text.split(","))


main = rows.Command(
    __name__, __doc__, prepare, numbers={"steps": (600, "of a run")}, add_fn=_add
).main
