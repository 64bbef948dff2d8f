"""Official metrics of data sets, on plain Python values.

One file a metric, whether one data set has it (squad, openkp, ...) or several share it
(rouge, labels, retrieval, ...): `score(gold, predictions) -> Scores`; `tags` has two
such functions, and `bits` needs no gold. Where a release fixes the format of its files,
`score_files` reads them. What metrics share: answers (how alike two are), references
(texts written in several ways), result (`Scores`) and files (reading, with errors that
say where).
"""
