"""Official metrics of data sets, on plain Python values.

One file a data set; each has `score(gold, predictions) -> Scores` on values as the
release files hold them.
"""
