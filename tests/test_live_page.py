"""The live page and the report in a real browser: they update, obey, survive, and ask nothing of the network."""

import http.client
import json
import os
import shutil
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kampong.streaming.history import History

pytest.importorskip("bokeh", reason="the live page needs the `stream` extra (bokeh)")

from kampong.report.live import LivePage
from kampong.report.page import write_report
from test_report import last, run_stream

DESK, PHONE = (1440, 900), (390, 844)
CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"

# Bokeh's widgets live in nested shadow roots.
DEEP = """
function* deep(root) {
  for (const element of root.querySelectorAll("*")) {
    yield element
    if (element.shadowRoot) yield* deep(element.shadowRoot)
  }
}
const named = (name) => Bokeh.documents[0].get_model_by_name(name);
"""


class Browser:
    """A headless Chromium with what these tests ask of it."""

    def __init__(self, profile):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (
            "headless=new",
            "no-sandbox",
            "disable-gpu",
            "disable-quic",
            "no-first-run",
            "disable-background-networking",
            "disable-component-update",
            "disable-sync",
            "hide-scrollbars",
            f"user-data-dir={profile}",
        ):
            options.add_argument(f"--{flag}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def size(self, width, height):
        facts = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", facts)

    def open(self, address):
        """Leave the page before, with what it had to say, and open another."""
        self.driver.get("about:blank")
        self.errors(), self.requests()
        self.driver.get(address)
        self.wait_idle()

    def wait_idle(self):
        self.wait("return window.Bokeh !== undefined && Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle")

    def run(self, code, *arguments):
        return self.driver.execute_script(DEEP + code, *arguments)

    def wait(self, code, *arguments, seconds=20):
        """Wait until the code returns something true, and return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(code, *arguments)
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"in vain for {seconds} s: {code} {arguments}; {self.errors()}")

    def text(self):
        return self.run("return [...deep(document)].filter(e => e.matches('h1,h2,p,dd,th,td')).map(e => e.textContent)")

    def click(self, words):
        """Click the button with these words."""
        found = "return [...deep(document)].find(e => e.matches('.bk-btn') && e.textContent.trim() == arguments[0])"
        self.run(found, words).click()

    def shown(self):
        """Return how many coloured and grey points are drawn."""
        grey, coloured = self.run("return named('picture').renderers.map(r => r.view.indices.count)")
        return coloured, grey

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self):
        """Return the addresses asked for since the last call, but for those inside the browser."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("data:", "blob:"))]

    def overflow(self):
        """Return how far anything reaches past the right edge."""
        return self.run(
            "const kinds = 'canvas,.bk-btn,td,h1,select';"
            "const edges = [...deep(document)].filter(e => e.checkVisibility() && e.matches(kinds))"
            ".map(e => e.getBoundingClientRect().right);"
            "return Math.max(document.documentElement.scrollWidth, ...edges) - window.innerWidth"
        )


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    missing = [path for path in (CHROMIUM, DRIVER) if not Path(path).exists()]
    if missing and not os.environ.get("CI_BROWSER_REQUIRED"):
        pytest.skip(f"no browser here: {' and '.join(missing)} missing")
    profile = tmp_path_factory.mktemp("profile")
    chromium = Browser(profile)
    yield chromium
    chromium.driver.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def page():
    live = LivePage(title="a stream", interval=0.2)
    yield live
    live.stop()


@pytest.mark.parametrize("n_classes", [2, 10, 127])
def test_the_report_opens_from_disk_and_asks_nothing_of_the_network(browser, tmp_path, n_classes):
    model, history = last(run_stream(n_classes, falls_at=25))
    path = tmp_path / "report.html"
    write_report(path, model, history, title=f"{n_classes} classes", provenance={"source": "generated"})
    for size in (DESK, PHONE):
        browser.size(*size)
        browser.open(path.as_uri())
        assert browser.run("return named('progress').data.rows.at(-1)") == history.rows
        assert sum(browser.shown()) == len(history.points().labels)
        assert (browser.shown()[1] > 0) == (n_classes > 9)
        assert f"{history.rows:,}" in browser.text()
        assert browser.overflow() <= 0
        columns = browser.run(
            "return new Set(named('page').children.slice(1).map(c => Math.round(Bokeh.index.find_one_by_id(c.id)"
            ".el.getBoundingClientRect().left))).size"
        )
        assert columns == (2 if size == DESK else 1)
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert set(browser.requests()) == {path.as_uri()}
        assert not browser.errors()


def test_names_do_not_run(browser, tmp_path):
    evil = [f"<img src=x onerror='window.ran={number}'>" for number in range(12)] + ["<script>ran=1</script>", "$$x$$"]
    model, history = last(run_stream(len(evil), 12, names=evil, falls_at=9))
    path = tmp_path / "report.html"
    write_report(path, model, history, title=evil[0], provenance={evil[1]: evil[2]})
    browser.size(*DESK)
    browser.open(path.as_uri())
    # Open the list of classes, show one above the other, and hover over a point.
    browser.run("[...deep(document)].find(e => e.matches('.choices__input')).focus()")
    browser.run("named('up').value = 'strip'")
    over = (
        "const plot = Bokeh.index.find_one_by_id(named('picture').id);"
        "const x = named('points').data.d1[0], y = named('points').data.strip[0];"
        "const box = plot.el.shadowRoot.querySelector('.bk-Canvas') ?? plot.el;"
        "const at = box.getBoundingClientRect();"
        "return [at.left + plot.frame.x_scale.compute(x), at.top + plot.frame.y_scale.compute(y)]"
    )
    x, y = browser.run(over)
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    browser.wait("return [...deep(document)].some(e => e.matches('.bk-Tooltip') && e.checkVisibility())")
    time.sleep(0.3)
    assert browser.run("return window.ran === undefined")
    assert set(browser.requests()) == {path.as_uri()}
    assert not browser.errors()


def test_the_page_follows_a_stream_obeys_its_reader_and_survives(browser, page):
    browser.size(*DESK)
    address = page.start()
    browser.open(address)
    assert "no labelled rows yet" in browser.text()

    seen, gates = [], {number: threading.Event() for number in (5, 20)}

    def run():
        for number, (model, history) in enumerate(run_stream(12, n_batches=40, falls_at=30)):
            page.publish(model, history, {"batches": number + 1})
            while number in gates and not gates[number].wait(0.05):
                page.publish(model, history, {"batches": number + 1})
        page.finish()
        seen.append(history)

    thread = threading.Thread(target=run)
    thread.start()
    # It updates while the stream runs.
    browser.wait("return named('progress').data.rows.at(-1) == 6 * 300")
    gates[5].set()
    browser.wait("return named('progress').data.rows.at(-1) == 21 * 300")
    assert any(text.startswith("running") for text in browser.text())
    assert not any(text.startswith("finished") for text in browser.text())
    # A class is switched off, stays off as more rows come, and comes back.
    name = browser.run("return named('choice').value[0]")
    before = browser.shown()[0]
    browser.click(name)
    browser.wait("return named('picture').renderers[1].view.indices.count < arguments[0]", before)
    of_class = "const s = named('points').data.label; return named('picture').renderers[1].view._indices.filter("
    of_class += "i => s[i] == arguments[0]).length"
    assert browser.run(of_class, name) == 0
    browser.click("all other classes")
    browser.wait("return named('picture').renderers[0].view.indices.count == 0")
    browser.run("named('across').value = 'd3'")
    gates[20].set()
    thread.join()
    history = seen[0]
    browser.wait("return named('progress').data.rows.at(-1) == arguments[0]", history.rows)
    browser.wait("return [...deep(document)].some(e => e.matches('p') && e.textContent.startsWith('finished'))")
    assert history.rows == 40 * 300
    assert browser.run(of_class, name) == 0
    assert browser.shown()[1] == 0
    assert browser.run("return named('picture').renderers[1].glyph.x.field") == "d3"
    assert browser.run("return named('picture').below[0].axis_label") == "direction 3"
    browser.click(name)
    browser.wait(of_class.replace("return", "return 0 <"), name)
    # The table that is drawn, not only its data, is the last one.
    most = f"{history.class_table().rows.max():,}"
    browser.wait(
        "return [...deep(document)].some(e => e.matches('.slick-cell') && e.textContent == arguments[0])", most
    )
    # The end of the stream and a reload leave it as it is.
    browser.driver.refresh()
    browser.wait_idle()
    assert browser.run("return named('progress').data.rows.at(-1)") == history.rows
    assert any(text.startswith("finished") for text in browser.text())
    assert sum(browser.shown()) == len(history.points().labels)
    browser.size(*PHONE)
    browser.wait("return window.innerWidth == 390")
    time.sleep(0.5)
    assert browser.overflow() <= 0
    assert not browser.errors()


def test_a_token_lets_the_reader_in(browser):
    page = LivePage(token="wort mit/Zeichen&")
    try:
        address = page.start()
        browser.open(address)
        assert urlsplit(browser.driver.current_url).query == ""
        assert "no labelled rows yet" in browser.text()
        assert not browser.errors()
    finally:
        page.stop()


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec_WebSocket_Version": "13",
}


def test_without_the_token_every_request_is_refused():
    page = LivePage(token="correct horse")
    page.start()
    try:
        port = page.port
        for path in (
            "/",
            "/ws",
            "/static/js/bokeh.min.js",
            "/autoload.js",
            "/metadata",
            "/?token=wrong",
            "/no",
            "/ws?token=correct%20horse",
        ):
            status, headers, text = ask(port, path)
            assert (status, "Set-Cookie" in headers) == (403, False), path
            assert "token" in text, path
        assert ask(port, "/ws", **HANDSHAKE)[0] == 403
        assert ask(port, Cookie=f"kampong_{port}=wrong")[0] == 403
        assert ask(port, method="POST")[0] == 403
        status, headers, _ = ask(port, "/?token=correct%20horse")
        assert (status, headers["Location"]) == (302, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        status, _, text = ask(port, Cookie=cookie)
        assert status == 200
        assert "correct" not in text
        assert ask(port, "/static/js/bokeh.min.js", Cookie=cookie)[0] == 200
        # Another site cannot speak through the reader's browser.
        assert ask(port, "/ws", Cookie=cookie, Origin=f"http://evil.example:{page.port}", **HANDSHAKE)[0] == 403
    finally:
        page.stop()


def test_without_a_token_only_this_machine_is_served(page):
    page.start()
    assert ask(page.port)[0] == 200
    assert ask(page.port, Host=f"localhost:{page.port}")[0] == 200
    for name in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example"):
        assert ask(page.port, Host=name)[0] == 403
    assert ask(page.port, "/ws", Origin=f"http://evil.example:{page.port}", **HANDSHAKE)[0] == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "", "::", "example.org"])
def test_other_hosts_need_a_token(host):
    with pytest.raises(ValueError, match="Give a token"):
        LivePage(host)
    with pytest.raises(ValueError, match="at least 8"):
        LivePage(host, token="short")
    assert LivePage(host, token="long enough").token == "long enough"


def test_a_port_in_use_is_named(page):
    page.start()
    with pytest.raises(OSError, match=f"127.0.0.1:{page.port}: .*Try another port"):
        LivePage(port=page.port).start()
    with pytest.raises(RuntimeError, match="already"):
        page.start()


class Broken:
    """A model that cannot be read."""

    def get_params(self, deep=True):
        raise RuntimeError("broken")


def wait_until_due(page):
    while time.monotonic() < page._due:
        time.sleep(0.01)


def test_publishing_never_breaks_the_stream(page, caplog):
    _, history = last(run_stream(3, 4))
    page.interval = 0.0
    page.publish(Broken(), history, {})  # not started, and broken
    assert "could not be renewed" in caplog.text
    page.start()
    wait_until_due(page)
    page.publish(None, history, {})
    assert page._current[1].progress["rows"][-1] == history.rows
    wait_until_due(page)
    page.publish(Broken(), history, {})
    page.finish()
    assert page._current[1].state.startswith("finished")
    assert page._current[1].progress["rows"][-1] == history.rows
    page.stop()
    page.stop()
    page.publish(None, history, {})


def test_publishing_is_rare_and_the_end_is_the_last_state(page):
    page.interval = 3600.0
    history = History()
    for _ in range(1000):
        history.observe(rows=1, correct=1, seconds=0)
        page.publish(None, history, {})
    number, snapshot = page._current
    assert number == 1
    assert snapshot.progress["rows"].tolist() == [1]
    page.finish()
    assert page._current[1].progress["rows"][-1] == 1000
    assert page._current[1].state.startswith("finished")


def test_a_slow_snapshot_is_taken_less_often(page, monkeypatch):
    def slow(*_, **__):
        time.sleep(0.05)

    monkeypatch.setattr("kampong.report.live.take", slow)
    page.interval = 0.0
    started, taken = time.monotonic(), 0
    while time.monotonic() < started + 0.9:
        before = page._current[0]
        page.publish(None, History(), {})
        taken += page._current[0] - before
    assert taken == 1  # 0.05 s is a twentieth of 1 s
