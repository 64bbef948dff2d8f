"""Prints the largest difference of every golden case."""


def pytest_terminal_summary(terminalreporter):
    rows = [
        (report.nodeid.partition("[")[2].removesuffix("]"), value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in report.user_properties
        if name == "score_difference"
    ]
    if not rows:
        return
    terminalreporter.section("golden scores: largest difference")
    width = max(len(case) for case, _ in rows)
    for case, value in sorted(rows):
        terminalreporter.write_line(f"{case:{width}}  {value:.2e}")
