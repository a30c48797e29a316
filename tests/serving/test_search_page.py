"""The page `/search` in a headless Chromium: what a person sees, with hostile, many and no sentences."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import uvicorn

from biomodels.simcse import SimCSE
from serving.api import create_app
from serving.config import Settings
from serving.corpora import Corpora
from serving.search import LocalSearcher

pytestmark = pytest.mark.browser

ATTACK = "<script>document.title='attacked'</script> <img src=x onerror=\"document.title='attacked'\"> & a guitar"
SENTENCES = [
    "A woman is reading.",
    "A man is playing a guitar.",
    "He plays guitar.",
    ATTACK,
    "The kidney filters blood.",
]
PATIENCE = 240  # seconds; ten thousand sentences take ten on a machine that does nothing else


@pytest.fixture(scope="module")
def server(minilm, tmp_path_factory):
    """The application with a small default corpus, on a port of its own; yields its address."""
    file = tmp_path_factory.mktemp("page") / "sentences.txt"
    file.write_text("\n".join(SENTENCES))
    settings = Settings(sentence_model=minilm)
    app = create_app(None, settings, LocalSearcher(Corpora(SimCSE(minilm), str(file))))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join(timeout=20)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, on a desktop's screen."""
    from selenium import webdriver

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no Chromium with its driver is installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--window-size=1100,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


class Page:
    """What a test does on the page, and reads from it."""

    def __init__(self, browser, url: str, screenshots: Path) -> None:
        self.browser = browser
        self.screenshots = screenshots
        browser.get(url)
        self.wait(lambda: self.text("corpus"))

    def wait(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.browser, PATIENCE, poll_frequency=0.1).until(lambda _: condition())

    def find(self, name):
        return self.browser.find_element("id", name)

    def text(self, name):
        return self.find(name).text

    def results(self):
        """Sentence and score of each row, read at once, since the page may replace them at any time."""
        script = """return [...document.querySelectorAll("#results li")].map(
            (row) => [row.querySelector(".text").innerText, Number(row.querySelector(".score").innerText)])"""
        return [tuple(row) for row in self.browser.execute_script(script)]

    def search(self, query):
        from selenium.webdriver import Keys

        field = self.find("query")
        field.clear()
        field.send_keys(query + Keys.ENTER)
        self.wait(lambda: self.text("message") not in {"", "Searching …"})

    def load(self, file: Path):
        self.find("file").send_keys(str(file))
        self.wait(lambda: file.name in self.text("corpus"))
        self.wait(lambda: not self.find("progress").is_displayed())

    def photograph(self, name):
        self.screenshots.mkdir(parents=True, exist_ok=True)
        assert self.browser.save_screenshot(str(self.screenshots / f"{name}.png"))

    def check_no_errors(self):
        assert self.browser.title == "Sentence search"
        severe = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert severe == []


@pytest.fixture
def page(server, browser, tmp_path):
    browser.set_window_size(1100, 900)
    screenshots = Path(os.environ.get("BIOMODELS_SCREENSHOTS", tmp_path))
    opened = Page(browser, server + "/search", screenshots)
    yield opened
    opened.check_no_errors()


def test_a_sentence_is_searched_and_the_sliders_move_the_answer(page):
    from selenium.webdriver import Keys

    assert page.text("corpus") == "5 sentences in the corpus of this service"
    assert page.browser.switch_to.active_element.get_attribute("id") == "query"
    page.search("He plays guitar.")
    found = page.results()
    assert found[0] == ("He plays guitar.", 1.0) and found[1][0] == "A man is playing a guitar."
    assert all(score >= 0.6 for _, score in found) and len(found) < 5
    assert page.text("message").startswith(f"{len(found)} sentences in ")
    page.photograph("search")

    page.find("threshold").send_keys(Keys.HOME)
    page.wait(lambda: len(page.results()) > len(found))
    assert page.text("threshold-value") == "0.00"
    page.find("top-k").send_keys(Keys.ARROW_LEFT * 3)
    page.wait(lambda: len(page.results()) == 2)
    assert page.text("top-k-value") == "2"
    page.find("threshold").send_keys(Keys.END)
    page.wait(lambda: len(page.results()) == 1)
    page.search("Something else altogether.")
    assert page.text("message") == "No sentence is that similar. A lower threshold finds more."
    assert page.results() == []


def test_markup_in_a_sentence_is_shown_and_not_run(page):
    page.search(ATTACK)
    assert page.results()[0] == (ATTACK, 1.0)
    assert page.browser.find_elements("css selector", "#results script, #results img") == []
    assert page.find("query").get_attribute("value") == ATTACK
    page.photograph("markup")


def test_ten_thousand_sentences_are_loaded_from_a_file_and_searched(page, tmp_path):
    file = tmp_path / "many.txt"
    lines = [f"Patient {i} took drug {i % 97} for {i % 31} days." for i in range(9_999)]
    file.write_text("\ufeff" + "\r\n".join([*lines, ATTACK, "", " "]), encoding="utf-8")
    page.load(file)
    assert page.text("corpus") == "10,000 sentences in many.txt"
    page.search("Patient 4321 took drug 53 for 12 days.")
    assert page.results()[0] == (lines[4321], 1.0) and len(page.results()) == 5
    page.search(ATTACK)
    assert page.results()[0] == (ATTACK, 1.0)
    page.search("Patient 4321 took drug 53 for 12 days.")
    page.photograph("many")


def test_an_empty_corpus_says_what_to_do(page, tmp_path):
    file = tmp_path / "empty.txt"
    file.write_text("\n \n")
    page.load(file)
    assert page.text("corpus") == "empty.txt is empty"
    page.search("He plays guitar.")
    assert page.text("message") == "There is nothing to search: load a file with one sentence per line."
    assert page.results() == []
    page.photograph("empty")


def test_a_file_that_is_no_text_is_refused_and_the_corpus_stays(page, tmp_path):
    file = tmp_path / "binary.txt"
    file.write_bytes(b"caf\xe9\xff\n")
    page.find("file").send_keys(str(file))
    page.wait(lambda: "is not UTF-8" in page.text("message"))
    assert page.find("message").get_attribute("class") == "error"
    assert page.text("corpus") == "5 sentences in the corpus of this service"


def test_the_keyboard_is_enough(page):
    from selenium.webdriver import ActionChains, Keys

    order = []
    for _ in range(5):
        element = page.browser.switch_to.active_element
        order.append(element.get_attribute("id") or element.text)
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
    assert order == ["query", "Search", "top-k", "threshold", "file"]


def test_a_phone_shows_all_of_it(server, page):
    page.browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        page.browser.get(server + "/search?query=He+plays+guitar.&top_k=3&threshold=0.1")
        page.wait(lambda: len(page.results()) == 3)
        assert page.text("top-k-value") == "3" and page.text("threshold-value") == "0.10"
        width = page.browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390, "nothing is cut off on the right"
        sizes = [page.find(name).size["height"] for name in ("query", "top-k", "threshold")]
        assert min(sizes) >= 32, "large enough for a finger"
        page.photograph("phone")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
