"""One browser for all tests of pages."""

import pytest
from headless_browser import NO_BROWSER, NO_FONT, find_programs, open_browser


@pytest.fixture(scope="session")
def browser():
    programs = find_programs()
    if programs is None:
        pytest.skip(NO_BROWSER)
    with open_browser(*programs) as browser:
        if not browser.shows_text():
            pytest.skip(NO_FONT)
        yield browser
