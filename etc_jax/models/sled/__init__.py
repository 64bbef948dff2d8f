"""SLED and BART-LS: blocks of a long text in a short model."""
