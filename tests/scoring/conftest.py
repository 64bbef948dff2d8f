"""Prints the largest difference of every golden case."""

from golden_cases import print_differences


def pytest_terminal_summary(terminalreporter):
    print_differences(terminalreporter, "score_difference", "golden scores")
