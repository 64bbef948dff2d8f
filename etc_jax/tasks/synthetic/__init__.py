"""Invented worlds, and questions about them in the raw formats of real data sets.

    etc-jax synthetic --task=hotpotqa --count=1000 --seed=0 --out=train.json

Each item has a world of its own: entities with invented names, and relations between
them, drawn anew, so that nothing is to be remembered from one item to the next. Every
relation has a twin between the same kinds of entities, which is stated of the same
entities in the same documents: what a question asks for is decided by following
relations, not by which names stand near each other or how often.
"""
