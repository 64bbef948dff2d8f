"""Official metrics of data sets, on plain Python values.

One file a metric, whether one data set has it (squad, openkp, ...) or several share it
(rouge, labels, retrieval, ...): `score(gold, predictions) -> Scores`; `tags` has two
such functions, and `bits` needs no gold; `texts` has those of written texts by name,
which `scrolls` takes for its seven sets. What metrics share: answers (how alike two
are), references (texts written in several ways), result (`Scores`) and files (checks
of values, with errors that say where).
"""
