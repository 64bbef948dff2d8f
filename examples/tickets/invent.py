"""Invents tickets, with a vocabulary for them.

    python -m tickets.invent --out=made

Several people speak in a ticket; whether it is urgent says the customer alone. Writes
train.jsonl, dev.jsonl and tokenizer.json.
"""

import argparse
import json
import pathlib
import random

from etc_jax.data.tokenizers.wordpiece_training import train

_NAMES = "Ann Ben Cora Dan Eva Finn Gus Hana".split()
_THINGS = "printer network door screen account heating".split()
_FAULTS = "is broken|does not answer|was gone this morning|makes a noise".split("|")
_NEEDS = {
    True: ("needs help today", "cannot work without it", "has to wait no longer"),
    False: ("can wait", "has time until next month", "does not need it this week"),
}


def ticket(number: int, rng: random.Random) -> dict:
    """A ticket; of an even number an urgent one."""
    urgent = number % 2 == 0
    thing = rng.choice(_THINGS)
    others = rng.sample(_NAMES, 3)
    sentences = [f"{name} {rng.choice(_NEEDS[rng.random() < 0.5])}." for name in others]
    sentences.insert(rng.randrange(4), f"The customer {rng.choice(_NEEDS[urgent])}.")
    text = f"The {thing} {rng.choice(_FAULTS)}. {' '.join(sentences)}"
    return {"id": f"t{number}", "text": text, "urgent": urgent}


def main() -> None:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder")
    parser.add_argument("--count", type=int, default=2000, help="tickets to train on")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    tickets = [ticket(i, rng) for i in range(args.count + 100)]
    parts = {"train": tickets[: args.count], "dev": tickets[args.count :]}
    for name, part in parts.items():
        lines = "".join(f"{json.dumps(x)}\n" for x in part)
        (args.out / f"{name}.jsonl").write_text(lines)
    texts = [x["text"] for x in parts["train"]]
    train(texts, vocab_size=240).save(args.out / "tokenizer.json")


if __name__ == "__main__":
    main()
