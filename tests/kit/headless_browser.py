"""A real browser without a screen: Chromium, driven by Selenium."""

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from unittest import mock

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.support.wait import WebDriverWait

_INSTALL = "apt-get install chromium chromium-driver fonts-dejavu-core"
NO_BROWSER = f"no chromium with a chromedriver to look at pages with: {_INSTALL}"
NO_FONT = f"the browser has no font, and shows no text: {_INSTALL}"

_FLAGS = (
    "--headless",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # else it asks its maker for news
)


def find_programs() -> tuple[str, str] | None:
    """Paths of an installed browser and of its driver; None if one is missing.

    Those of a snap are passed over: they are kept from files in temporary folders.
    """
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    fit = [x for x in found if x and not os.path.realpath(x).endswith("/snap")]
    return tuple(fit) if len(fit) == len(found) else None


@contextlib.contextmanager
def open_browser(program: str, driver: str) -> Iterator["Browser"]:
    """Starts a browser that leaves nothing behind; see `find_programs`."""
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in _FLAGS + (("--no-sandbox",) if os.geteuid() == 0 else ()):
        options.add_argument(flag)
    # Not a folder of the test: paths of sockets in it have to be short.
    with tempfile.TemporaryDirectory() as folder:
        own = {"HOME": folder, "TMPDIR": folder, "no_proxy": "localhost"}
        with mock.patch.dict(os.environ, own):
            # Selenium downloads a driver unless it is told of one.
            service = webdriver.ChromeService(driver)
            session = webdriver.Chrome(options, service)
        with session:
            yield Browser(session)


class Browser:
    """One open page of a browser."""

    def __init__(self, session: webdriver.Chrome):
        self._session = session
        self._complaints: list[str] = []

    def open(
        self, page: pathlib.Path, *, width: int, height: int = 800, dark: bool = False
    ) -> None:
        """Opens a file in a window of some size, in CSS pixels."""
        size = {"width": width, "height": height}
        window = size | {"deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        devtools = self._session.execute_cdp_cmd
        devtools("Emulation.setDeviceMetricsOverride", window)
        devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._session.get_log("browser")  # what is said of the page before
        self._complaints.clear()
        self._session.get(page.resolve().as_uri())

    @property
    def complaints(self) -> list[str]:
        """What is said of the open page: its console, errors, what policy forbade."""
        self._complaints += [x["message"] for x in self._session.get_log("browser")]
        return self._complaints

    def evaluate(self, expression: str):
        """The value of a JavaScript expression in the page, as JSON takes it."""
        return self._session.execute_script(f"return ({expression})")

    def shows_text(self) -> bool:
        """Whether the machine has a font. A page is left behind that is of no use."""
        self.evaluate("document.body.innerHTML = '<span>x</span>'")
        return self.evaluate("document.querySelector('span').offsetWidth") > 0

    def click(self, x: float, y: float) -> None:
        """Presses the left button at a place of the window."""
        actions = ActionBuilder(self._session, duration=0)
        actions.pointer_action.move_to_location(x, y).click()
        actions.perform()

    def type(self, text: str) -> None:
        """Presses keys where the focus is."""
        ActionChains(self._session).send_keys(text).perform()

    def wait_for(self, expression: str) -> None:
        """Waits until a JavaScript expression is true, some seconds at most."""
        wait = WebDriverWait(self._session, 10, poll_frequency=0.05)
        wait.until(lambda _: self.evaluate(expression))

    def screenshot(self) -> bytes:
        """A PNG of the window."""
        return self._session.get_screenshot_as_png()
