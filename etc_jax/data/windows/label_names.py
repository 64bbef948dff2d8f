"""Names of labels that are made in one place and learnt in another."""

# What Natural Questions has four logits and four labels of, in the order of the logits.
NATURAL_QUESTIONS_PLACES = ("short_begin", "short_end", "long_begin", "long_end")
