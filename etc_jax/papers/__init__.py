"""The papers' tables as data, and how each of their rows is run here."""
