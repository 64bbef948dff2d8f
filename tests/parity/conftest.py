"""Prints the largest difference of every golden case."""

DIFFERENCE = "largest_difference"


def pytest_terminal_summary(terminalreporter):
    rows = [
        (report.nodeid.partition("[")[2].removesuffix("]"), value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in report.user_properties
        if name == DIFFERENCE
    ]
    if not rows:
        return
    terminalreporter.section("golden cases: largest difference")
    width = max(len(case) for case, _ in rows)
    for case, value in sorted(rows):
        terminalreporter.write_line(f"{case:{width}}  {value:.2e}")
