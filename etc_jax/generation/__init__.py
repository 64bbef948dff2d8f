"""Texts that models write: the loop, its rules, one door for all."""
