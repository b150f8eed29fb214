"""The live page and the report in a real browser: they show, obey, survive, and ask nothing of the network."""

import gzip
import http.client
import json
import os
import re
import shutil
import socket
import threading
import time
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from kampong import FisherDiscriminant
from kampong.online.members import MEMBERS
from kampong.streaming.history.history import History

pytest.importorskip("tornado", reason="the live page needs the `stream` extra")
pytest.importorskip("msgspec", reason="the live page needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the live page needs the `stream` extra")

from kampong.report.live import LivePage
from kampong.report.page import write_report
from kampong.report.snapshot import take
from kampong.streaming import learn
from report_problems import EVIL, data_of, last, run_stream

DESK, PHONE = (1400, 900), (390, 844)
CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
AXE = Path(__file__).parents[1].parent / "node_modules" / "axe-core" / "axe.min.js"

HELP = """
const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const outlines = (path) => path.getAttribute('d').split('M').length - 1;
const marks = (path) => outlines(path) / (['10', '11'].includes(path.dataset.shape) ? 2 : 1);  // rings have two
const shown = () => all('#s-map path.mark').reduce((sum, path) => sum + marks(path), 0);
const cells = (line) => [...line.children].map((cell) => cell.textContent);
const pressed = (words) => all('button').find((b) => b.textContent == words || b.getAttribute('aria-label') == words);
const option = (name) => all('#classes-shown li').find((item) => item.dataset.name == name);
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

    def dark(self, on):
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, address):
        """Leave the page before, with what it had to say, and open another."""
        self.driver.get("about:blank")
        self.errors(), self.requests()
        self.driver.get(address)
        self.wait("return document.documentElement.dataset.rows !== undefined")

    def run(self, code, *arguments):
        return self.driver.execute_script(HELP + code, *arguments)

    def wait(self, code, *arguments, seconds=20):
        """Wait until the code returns something true, and return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(code, *arguments)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"in vain for {seconds} s: {code} {arguments}; {self.errors()}")

    def keys(self, *keys):
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self):
        """Return the addresses asked for since the last call, but for those inside the browser."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("data:", "blob:"))]

    def overflow(self):
        """Return how far anything that does not scroll by itself reaches past the right edge."""
        return self.run(
            "const edges = all('header *, h2, main p, button, select, svg, .scroll, .list')"
            ".filter((e) => e.checkVisibility() && !e.parentElement.closest('.scroll, svg'))"
            ".map((e) => e.getBoundingClientRect().right);"
            "return Math.max(document.documentElement.scrollWidth, ...edges) - window.innerWidth"
        )

    def figure(self, key):
        """Return the number of a tile."""
        return self.run("return one(`.tiles [data-key='${arguments[0]}'] .value`).textContent", key)


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


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return the reports of streams of this many classes; "merged" is that of a model without a course."""
    folder, found = tmp_path_factory.mktemp("reports"), {}

    def report(n_classes):
        if n_classes not in found:
            merged = n_classes == "merged"
            model, history = last(run_stream(4 if merged else n_classes, falls_at=25, dead=int(n_classes == 10)))
            history = History() if merged and model.freeze() else history
            found[n_classes] = folder / f"{n_classes}.html"
            write_report(found[n_classes], model, history, title=f"{n_classes} classes", provenance={"source": "made"})
        return found[n_classes]

    return report


@pytest.fixture
def page():
    live = LivePage(token=None, title="a stream", interval=0.2)
    yield live
    live.stop()


def number(text):
    """Return the number that a text of the page says."""
    value = float(text.replace(",", "").replace("%", "").replace("·", "0").strip())
    return value / 100 if "%" in text else value


@pytest.mark.parametrize("n_classes", [2, 20, 126])
def test_the_report_opens_from_disk_and_shows_the_numbers_of_its_data(browser, reports, n_classes):
    path = reports(n_classes)
    data = data_of(path)
    browser.dark(False)
    for size in (DESK, PHONE):
        browser.size(*size)
        browser.open(path.as_uri())
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert set(browser.requests()) == {path.as_uri()}
        assert browser.overflow() <= 0
        columns = browser.run(
            "const parts = all('main > *').filter((e) => e.checkVisibility());"
            "return new Set(parts.map((e) => Math.round(e.getBoundingClientRect().left))).size"
        )
        assert columns == (2 if size == DESK else 1)
        browser.run("pressed('All points').click()")
        assert browser.run("return shown()") == len(data["points"]["row"])
        assert browser.run("return all('#classes-shown li').length") == n_classes
    for key in ("accuracy", "balanced_accuracy", "macro_f1"):
        assert number(browser.figure(key)) == pytest.approx(data["measures"][key], abs=5.1e-4)
        more = browser.run("return one(`.tiles [data-key='${arguments[0]}'] .more`).textContent", key)
        assert number(more.removeprefix("recent ")) == pytest.approx(data["recent"][key], abs=5.1e-4)
    for key, slack in (("last_label", 5.1e-4), ("kappa_last_label", 5.1e-3)):
        assert number(browser.figure(key)) == pytest.approx(data["baselines"][key], abs=slack)
    assert number(browser.figure("rows")) == data["totals"]["rows"]
    assert number(browser.figure("classes")) == n_classes
    assert number(browser.figure("rows_per_second")) == round(data["totals"]["rows_per_second"])
    table = browser.run("return all('#s-classes tbody tr').map(cells)")
    columns = ("rows", "precision", "recall", "recent_recall", "moved")
    assert len(table) == n_classes
    for name, *cells in table:
        place = data["classes"]["name"].index(name)
        for key, cell in zip(columns, cells, strict=True):
            value = data["classes"][key][place]
            assert (value is None and cell == "–") or number(cell) == pytest.approx(
                value, abs=0.051 if key == "moved" else 5.1e-4
            )
    counts = browser.run(
        "return all('#s-confusions [data-pair]').map((cell) => [cell.dataset.pair, Number(cell.dataset.count)])"
    )
    pairs = {f"{i} {j}": count for i, j, count in data["confusions"]["pairs"]}
    if n_classes <= 30:
        pairs |= {f"{k} {k}": count for k, count in enumerate(data["classes"]["correct"])}
        assert len(counts) == n_classes**2
        assert {pair: count for pair, count in counts if count} == {
            pair: count for pair, count in pairs.items() if count
        }
        spelt = browser.run("return all('#s-confusions [data-pair]').map((cell) => cell.textContent)")
        assert [number(text) for text in spelt] == [count for _, count in counts]
    else:
        assert (
            [pairs[pair] for pair, _ in counts] == [count for _, count in counts] == sorted(pairs.values())[::-1][:60]
        )
    alarms = browser.run("return all('#s-drift .scroll:not(details *) tbody tr').map(cells)")
    assert [(number(row), number(before), number(after)) for _, row, before, after in alarms] == [
        (one["row"], pytest.approx(one["before"], abs=5.1e-4), pytest.approx(one["after"], abs=5.1e-4))
        for one in reversed(data["alarms"]["latest"])
    ]
    assert not browser.errors()


def test_a_model_without_a_course_says_so_and_shows_what_it_learnt(browser, reports):
    """Models that were merged or fitted at once: classes, choices and directions, no accuracy that reads as none."""
    model, _ = last(run_stream(4, falls_at=25))
    path = reports("merged")
    data = data_of(path)
    for size in (DESK, PHONE):
        browser.size(*size)
        browser.open(path.as_uri())
        assert browser.overflow() <= 0
        keys = browser.run("return all('#figures [data-key]').map((tile) => tile.dataset.key)")
        assert keys == ["rows", "classes", "chosen head", "chosen ε"]
        values = browser.run("return all('#figures dd.value').map((value) => value.textContent)")
        assert [number(values[0]), number(values[1])] == [9000, 4]
        words = browser.run("return one('#figures .note').textContent")
        assert "the course of its stream is not known, and no accuracy is shown" in words
        assert "predicted before it is learnt" not in browser.run("return document.body.textContent")
        assert browser.run("return ['confusions', 'drift', 'run'].map((id) => one('#s-' + id).hidden)") == [True] * 3
        lines = browser.run("return all('#s-classes tbody tr').map(cells)")
        assert {name: number(count) for name, count in lines} == dict(
            zip(data["classes"]["name"], model.class_counts_.tolist(), strict=True)
        )
        assert browser.run("return all('#s-classes th[scope=col]').filter((e) => e.checkVisibility()).length") == 2
        assert browser.run("return all('#s-directions .cards > div').length") == len(data["directions"]) > 0
    browser.run("one('#s-classes button[data-key=name]').click()")
    assert browser.run("return all('#s-classes tbody th').map((e) => e.textContent)") == data["classes"]["name"]
    assert not browser.errors()


def test_the_reader_sorts_searches_toggles_and_filters(browser, reports):
    path = reports(10)
    data = data_of(path)
    points, names = data["points"], data["classes"]["name"]
    wrong = [i for i, said in enumerate(points["predicted"]) if said >= 0 and said != points["label"][i]]
    browser.size(*DESK)
    browser.dark(False)
    browser.open(path.as_uri())
    # Sort: up, down, and by name.
    recalls = "return all('#s-classes tbody tr').map((line) => line.children[3].textContent)"
    for falls in (True, False):
        browser.run("one('#s-classes [data-key=recall]').click()")
        shown = [number(text) for text in browser.run(recalls)]
        assert shown == sorted(shown, reverse=falls)
        order = "descending" if falls else "ascending"
        assert (
            browser.run("return one('#s-classes [data-key=recall]').parentElement.getAttribute('aria-sort')") == order
        )
    browser.run("one('#s-classes [data-key=name]').click()")
    assert browser.run("return all('#s-classes tbody th').map((cell) => cell.textContent)") == names
    # Search and toggle.
    browser.run("pressed('All points').click()")
    assert browser.run("return shown()") == len(points["row"])
    browser.run("const box = one('input[type=search]'); box.value = '003'; box.dispatchEvent(new Event('input'))")
    assert browser.run("return all('#classes-shown li').map((item) => item.dataset.name)") == ["class 003"]
    browser.run("option('class 003').click()")
    of_class = points["label"].count(3)
    assert browser.run("return shown()") == len(points["row"]) - of_class
    assert browser.run("return option('class 003').getAttribute('aria-selected')") == "false"
    browser.run("const box = one('input[type=search]'); box.value = ''; box.dispatchEvent(new Event('input'))")
    assert browser.run("return all('#classes-shown li').length") == 10
    browser.run("pressed('Hide all').click()")
    assert browser.run("return shown()") == 0
    browser.run("pressed('Show all').click()")
    # Errors only.
    browser.run("pressed('Errors only').click()")
    browser.run("pressed('All points').click()")
    assert browser.run("return shown()") == len(wrong)
    browser.run("pressed('Errors only').click()")
    # A cell of the confusions filters the map, and lets go.
    i, j, _ = data["confusions"]["pairs"][0]
    there = sum(points["label"][k] == i and points["predicted"][k] == j for k in range(len(points["row"])))
    browser.run("one(`[data-pair='${arguments[0]}']`).click()", f"{i} {j}")
    browser.run("pressed('All points').click()")
    assert browser.run("return shown()") == there > 0
    assert browser.run("return one('.pill').textContent") == f"{names[i]} predicted as {names[j]} ✕"
    browser.run("one('.pill').click()")
    assert browser.run("return shown()") == len(points["row"])
    # Axes and zoom.
    browser.run("const up = one('#up'); up.value = '2'; up.dispatchEvent(new Event('change'))")
    assert "direction 3" in browser.run("return one('#map svg').textContent")
    browser.run("pressed('Most points').click()")
    inside = browser.run("return shown()")
    assert 0.97 * len(points["row"]) <= inside < len(points["row"])
    assert browser.run("return all('#s-map p.note')[0].textContent").startswith(
        f"{inside:,} of {len(points['row']):,} points shown; "
    )
    # Names at the means, ellipses, and a point that is read.
    drawn = browser.run("return all('#map text.name').map((text) => text.textContent)")
    assert set(drawn) <= set(names)
    assert len(drawn) >= 5
    assert browser.run("return all('#map path.ellipse').length") == 10
    browser.run("one('#map').scrollIntoView({block: 'center'})")
    x, y = browser.run(
        "const d = one('#map svg path.mark').getAttribute('d').match(/[-\\d.]+/g);"
        "const map = one('#map').getBoundingClientRect(); return [map.left + Number(d[0]) + 3, map.top + Number(d[1])]"
    )
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    text = browser.wait("return !one('#map .tip').hidden && one('#map .tip').innerText")
    row, label, said = text.split("\n")
    place = points["row"].index(int(row.removeprefix("row ").replace(",", "")))
    assert label == f"class {names[points['label'][place]]}"
    assert said.startswith(f"predicted {names[points['predicted'][place]]} with probability ")
    assert number(said.split("probability ")[1]) == pytest.approx(points["probability"][place], abs=5.1e-4)
    # Dead letters are there only where there are any.
    assert browser.run("return one('#s-dead').checkVisibility()")
    assert browser.run("return one('#s-dead [data-key=dead]').textContent") == "30"
    assert not browser.errors()


@pytest.fixture(scope="module")
def chosen_report(tmp_path_factory):
    """Return the report of a Fisher model of a stream with one far class, whose ridge and head were chosen."""
    folder = tmp_path_factory.mktemp("chosen")
    rng = np.random.default_rng(3)
    centres = 1.5 * rng.normal(size=(7, 5))
    centres[6] = 60.0
    codes = rng.integers(7, size=1500)
    X = centres[codes] + rng.normal(size=(1500, 5))
    lines = [",".join([*(f"{value:.3f}" for value in row), f"kind {code}"]) for row, code in zip(X, codes, strict=True)]
    (folder / "s.csv").write_text("\n".join(["v,w,x,y,z,kind", *lines, ""]))
    run = learn(str(folder / "s.csv"), FisherDiscriminant(half_life="auto"), label="kind")
    write_report(folder / "r.html", run.model, run.history, predictor=run.predictor, memory=run.memory)
    return folder / "r.html"


def test_a_far_class_is_named_at_the_edge_and_does_not_squeeze_the_others(browser, chosen_report):
    browser.size(*DESK)
    browser.open(chosen_report.as_uri())
    points, names = data_of(chosen_report)["points"], data_of(chosen_report)["classes"]["name"]
    far = points["label"].count(names.index("kind 6"))
    assert browser.run("return shown()") <= len(points["row"]) - far
    (text,) = browser.run("return all('#map text.far').map((text) => text.textContent)")
    assert text.strip("← →↑↓") == "kind 6"
    assert "one class among them" in browser.run("return one('#s-map p.note').textContent")
    # The others fill the map; with all points they are in a corner.
    spread = (
        "const box = one('#map svg svg').getBoundingClientRect();"
        "const all_ = all('#map path.mark').map((e) => e.getBoundingClientRect());"
        "const mine = all_.filter((e, k) => all('#map path.mark')[k].style.fill !== 'var(--c6)');"
        "return (Math.max(...mine.map((e) => e.right)) - Math.min(...mine.map((e) => e.left))) / box.width"
    )
    assert browser.run(spread) > 0.8
    browser.run("pressed('All points').click()")
    assert browser.run(spread) < 0.5
    assert browser.run("return shown()") == len(points["row"])
    assert browser.run("return all('#map text.far').length") == 0


def test_choices_say_what_a_loss_is_and_which_learner_predicts(browser, chosen_report):
    data = data_of(chosen_report)
    browser.size(*DESK)
    browser.open(chosen_report.as_uri())
    words = browser.run("return one('#s-choices p').textContent")
    assert f"{data['choices']['validation_rows']:,} rows that they had not learnt" in words
    heads = browser.run("return all('#s-choices table[aria-label^=Heads] tbody tr').map(cells)")
    losses = sorted(data["choices"]["heads"].values())
    assert [number(loss) for _, loss, _, _ in heads] == pytest.approx(losses, rel=1e-2)
    assert [number(more) for _, _, more, _ in heads[1:]] == pytest.approx(
        [one - losses[0] for one in losses[1:]], rel=0.1
    )
    learners = browser.run("return all('#s-choices table[aria-label^=Which] tbody tr').map(cells)")
    assert len({name for name, _ in learners}) == len(data["choices"]["members"])
    assert not any("_" in name for name, _ in learners)
    weights = sorted(data["choices"]["members"].values(), reverse=True)
    for (_, text), weight in zip(learners, weights, strict=True):
        assert (text == "< 0.1%" and weight < 5e-4) or number(text) == pytest.approx(weight, abs=5.1e-4)


def test_every_member_of_the_contest_has_a_name_in_words():
    script = resources.files("kampong.report").joinpath("assets/explained.js").read_text("utf-8")
    known = re.findall(r"^  (\w+): ", script.split("const MEMBERS = {")[1].split("}")[0], re.MULTILINE)
    assert sorted(known) == sorted(member.name for member in MEMBERS)


@pytest.mark.parametrize("size", [DESK, (1000, 800), (700, 800), PHONE])
def test_no_tile_stands_alone_below_a_full_line(browser, chosen_report, size):
    browser.size(*size)
    browser.open(chosen_report.as_uri())
    lines = browser.run(
        "return all('.tiles').map((tiles) => {const tops = [...tiles.children].map((e) => e.offsetTop);"
        "return [...new Set(tops)].map((top) => tops.filter((one) => one === top).length)})"
    )
    across = browser.run("return all('.tiles > div').map((e) => e.getBoundingClientRect().right)")
    assert len(lines) == 1
    for counts in lines:
        assert max(counts) - min(counts) <= len(counts) - 1 or max(counts) == 2
        assert counts == sorted(counts, reverse=True)
    assert max(across) <= size[0]


def test_what_is_cut_off_shows_that_it_scrolls(browser, reports):
    cue = "const place = one('#s-classes .scroll'); return [place.classList.contains('more-right'), "
    cue += "place.nextElementSibling.checkVisibility(), place.classList.contains('more-down')]"
    browser.size(*PHONE)
    browser.open(reports(20).as_uri())
    assert browser.run(cue) == [True, True, True]
    browser.run("const place = one('#s-classes .scroll'); place.scrollTo(place.scrollWidth, place.scrollHeight)")
    browser.wait(f"{cue}.join() === 'false,true,false'")
    browser.size(*DESK)
    browser.open(reports(2).as_uri())
    assert browser.run(cue) == [False, False, False]


def test_everything_can_be_done_with_the_keyboard_alone(browser, reports):
    from selenium.webdriver import Keys

    path = reports(10)
    points = data_of(path)["points"]
    browser.size(*DESK)
    browser.open(path.as_uri())
    where = "const at = document.activeElement;"
    where += "return at.id || at.dataset.key || at.getAttribute('aria-label') || at.textContent"
    stops = []
    for _ in range(60):
        browser.keys(Keys.TAB)
        stops.append(browser.run(where))
        if stops[-1] == "one end":
            break
    order = [
        "Skip to the map",
        "across",
        "up",
        "Errors only",
        "Most points",
        "All points",
        "Zoom in",
        "Zoom out",
        "map",
        "Search a class",
        "Show all",
        "Hide all",
        "classes-shown",
    ]
    start = stops.index(order[1])
    assert [stops[0], *stops[start : start + len(order) - 1]] == order
    assert len(set(stops)) < 45  # classes and cells of the matrix are one stop each
    browser.run("pressed('All points').focus()")
    browser.keys(Keys.ENTER)
    browser.run("one('#classes-shown').focus()")
    browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.SPACE)
    assert browser.run("return option('class 002').getAttribute('aria-selected')") == "false"
    assert browser.run("return shown()") == len(points["row"]) - points["label"].count(2)
    browser.keys(Keys.ENTER)  # this one alone
    assert browser.run("return shown()") == points["label"].count(2)
    browser.run("pressed('Show all').click(); one('#map').focus()")
    browser.keys("n")
    assert browser.run("return !one('#map .tip').hidden && one('#map .tip').textContent.startsWith('row ')")
    before = browser.run("return one('#map svg').textContent")
    browser.keys("+", Keys.ARROW_RIGHT)
    assert browser.run("return one('#map svg').textContent") != before
    browser.keys("0")
    assert browser.run("return shown()") == len(points["row"])
    browser.run("one('#s-confusions [data-pair][tabindex=\"0\"]').focus()")
    browser.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)
    assert browser.run("return document.activeElement.dataset.pair") == "1 1"
    there = sum(points["label"][k] == points["predicted"][k] == 1 for k in range(len(points["row"])))
    assert browser.run("pressed('All points').click(); return shown()") == there
    assert not browser.errors()


def test_dark_and_print_follow_the_readers_setting(browser, reports):
    browser.size(*DESK)
    colours = "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
    browser.dark(False)
    browser.open(reports(10).as_uri())
    light = browser.run(colours)
    mark = "return getComputedStyle(one('#map path.mark')).fill"
    before = browser.run(mark)
    browser.dark(True)
    dark = browser.run(colours)
    assert light == ["rgb(255, 255, 255)", "rgb(22, 25, 29)"]
    assert dark == ["rgb(20, 23, 26)", "rgb(236, 239, 242)"]
    assert browser.run(mark) != before
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert browser.run(colours)[0] == "rgb(255, 255, 255)"
    assert not browser.run("return one('#s-map .bar').checkVisibility()")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def serious(browser):
    """Return what axe-core finds serious or critical on the page that is open, its details opened."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed; `npm install --no-save axe-core` in the repository brings it")
    browser.run("all('details').forEach((e) => (e.open = true))")
    browser.driver.execute_script(AXE.read_text("utf-8"))
    found = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "const failed = (error) => done([{id: String(error), impact: 'critical', nodes: []}]);"
        "axe.run(document).then((found) => done(found.violations), failed)"
    )
    return [
        (one["id"], [node["html"][:120] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("n_classes", [10, 126, "merged"])
def test_axe_finds_no_serious_violation(browser, reports, n_classes, dark):
    browser.size(*DESK)
    browser.dark(dark)
    browser.open(reports(n_classes).as_uri())
    found = serious(browser)
    browser.dark(False)
    assert found == []


@pytest.mark.parametrize(("size", "dark"), [(DESK, False), (PHONE, True)])
def test_axe_finds_no_serious_violation_on_the_live_page(browser, page, size, dark):
    browser.size(*size)
    browser.dark(dark)
    browser.open(page.start())
    found = {"before the first row": serious(browser)}
    stream = run_stream(10, n_batches=30, falls_at=25, dead=1)
    for number, (model, history) in enumerate(stream):
        if number in (3, 29):
            wait_until_due(page)
            page.publish(model, history, {"batches": number + 1})
            browser.wait("return document.documentElement.dataset.rows == arguments[0]", history.rows)
            found[f"after {history.rows} rows"] = serious(browser)
    page.finish()
    browser.wait("return one('#state').textContent.startsWith('Finished')")
    found["finished"] = serious(browser)
    browser.dark(False)
    assert list(found) == ["before the first row", "after 1200 rows", "after 9000 rows", "finished"]
    assert not any(found.values()), found


def test_names_do_not_run(browser, tmp_path):
    evil = [
        *EVIL[:-1],
        "<img src=x onerror='window.ran=1'>",
        "<script>window.ran=1</script>",
        "'\"&quot;",
        "$$x$$",
        "javascript:ran=1",
    ]
    model, history = last(run_stream(len(evil), 12, names=evil, falls_at=9))
    path = tmp_path / "report.html"
    write_report(path, model, history, title=evil[0], provenance={evil[1]: evil[2]})
    browser.size(*PHONE)
    browser.open(path.as_uri())
    assert browser.overflow() <= 0
    browser.size(*DESK)
    browser.open(path.as_uri())
    assert browser.run("return one('h1').textContent") == evil[0]
    listed = browser.run("return all('#classes-shown li').map((item) => item.querySelector('.text').textContent)")
    assert sorted(listed) == sorted(evil)
    assert sorted(browser.run("return all('#s-classes tbody th').map((cell) => cell.textContent)")) == sorted(evil)
    browser.run("all('details').forEach((e) => (e.open = true)); one('#map').focus()")
    browser.keys("n")
    browser.run("one('[data-pair]').click()")
    assert browser.run("return all('img, script:not(head script):not(body > script)').length") == 0
    time.sleep(0.2)
    assert browser.run("return window.ran === undefined")
    assert set(browser.requests()) == {path.as_uri()}
    assert not browser.errors()


def test_the_page_follows_a_stream_obeys_its_reader_and_survives(browser, page):
    browser.size(*DESK)
    browser.dark(False)
    address = page.start()
    browser.open(address)
    assert "No labelled rows yet." in browser.run("return document.body.innerText")

    seen, gates = [], {number: threading.Event() for number in (5, 20)}

    def run():
        for number, (model, history) in enumerate(run_stream(12, n_batches=40, falls_at=30)):
            page.publish(model, history, {"batches": number + 1})
            while number in gates and not gates[number].wait(0.05):
                page.publish(model, history, {"batches": number + 1})
        page.finish()
        seen.append((model, history))

    thread = threading.Thread(target=run)
    thread.start()
    # It updates while the stream runs, and says what it learns from.
    browser.wait("return document.documentElement.dataset.rows == 6 * 300")
    assert browser.run("return document.title") == "a stream"
    browser.run(
        "option('class 001').click(); const up = one('#up'); up.value = '2'; up.dispatchEvent(new Event('change'))"
    )
    browser.run("one('#s-classes [data-key=recall]').click(); pressed('All points').click()")
    gates[5].set()
    browser.wait("return document.documentElement.dataset.rows == 21 * 300")
    assert browser.run("return one('#state').textContent").startswith("Running")
    # What the reader chose stays as more rows come.
    assert browser.run("return option('class 001').getAttribute('aria-selected')") == "false"
    assert browser.run("return one('#up').value") == "2"
    assert (
        browser.run("return one('#s-classes [data-key=recall]').parentElement.getAttribute('aria-sort')")
        == "descending"
    )
    # A reload during the run begins anew with the current state.
    browser.driver.refresh()
    browser.wait("return document.documentElement.dataset.rows == 21 * 300")
    assert browser.run("return option('class 001').getAttribute('aria-selected')") == "true"
    gates[20].set()
    thread.join()
    model, history = seen[0]
    # The stream ends, and the page stays.
    browser.wait("return document.documentElement.dataset.rows == arguments[0]", history.rows)
    browser.wait("return one('#state').textContent.startsWith('Finished')")
    assert history.rows == 40 * 300
    data = take(model, history)
    assert number(browser.figure("accuracy")) == pytest.approx(data["measures"]["accuracy"], abs=5.1e-4)
    browser.run("pressed('All points').click()")
    assert browser.run("return shown()") == len(history.points().labels)
    browser.driver.refresh()
    browser.wait("return document.documentElement.dataset.rows == arguments[0]", history.rows)
    browser.size(*PHONE)
    browser.wait("return window.innerWidth == 390")
    time.sleep(0.3)
    assert browser.overflow() <= 0
    # The report of the moment is one file with the same numbers.
    link = browser.run("return one('#report a').href")
    browser.open(link)
    assert browser.run("return document.documentElement.dataset.rows") == str(history.rows)
    assert not browser.errors()


def test_a_page_that_is_served_no_more_says_so_and_keeps_what_it_shows(browser):
    page = LivePage(title="short", interval=0.0)
    browser.open(page.start())
    model, history = last(run_stream(3, 4))
    page.publish(model, history, {})
    browser.wait("return document.documentElement.dataset.rows == arguments[0]", history.rows)
    page.stop()
    browser.wait("return one('#state').textContent.includes('not served')")
    assert number(browser.figure("rows")) == history.rows
    browser.driver.get("about:blank")
    browser.errors()


def test_a_token_lets_the_reader_in(browser):
    page = LivePage(token="wort mit/Zeichen&")
    try:
        address = page.start()
        browser.open(address)
        assert urlsplit(browser.driver.current_url).query == ""
        assert "No labelled rows yet." in browser.run("return document.body.innerText")
        assert not browser.errors()
    finally:
        page.stop()


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode(errors="replace")
    finally:
        connection.close()


def test_without_the_token_every_request_is_refused():
    page = LivePage(token="correct horse")
    page.start()
    try:
        port = page.port
        for path in (
            "/",
            "/data",
            "/data?seen=-1",
            "/report.html",
            "/?token=wrong",
            "/no",
            "/data?token=correct%20horse",
        ):
            status, headers, text = ask(port, path)
            assert (status, "Set-Cookie" in headers) == (403, False), path
            assert "token" in text, path
        assert ask(port, Cookie=f"kampong_{port}=wrong")[0] == 403
        assert ask(port, method="POST")[0] == 403
        status, headers, _ = ask(port, "/?token=correct%20horse")
        assert (status, headers["Location"]) == (302, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        status, _, text = ask(port, Cookie=cookie)
        assert status == 200
        assert "correct horse" not in text
        assert "correct%20horse" not in text
        assert ask(port, "/report.html", Cookie=cookie)[0] == 200
        # Another site cannot speak through the reader's browser.
        assert ask(port, "/data", Cookie=cookie, Origin=f"http://evil.example:{page.port}")[0] == 403
    finally:
        page.stop()


def test_without_a_token_only_this_machine_is_served(page):
    page.start()
    assert ask(page.port)[0] == 200
    assert ask(page.port, Host=f"localhost:{page.port}")[0] == 200
    for name in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example"):
        assert ask(page.port, Host=name)[0] == 403
    assert ask(page.port, "/data", Origin=f"http://evil.example:{page.port}")[0] == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "", "::", "example.org"])
def test_other_hosts_need_a_token(host):
    with pytest.raises(ValueError, match="Give a token"):
        LivePage(host, token=None)
    with pytest.raises(ValueError, match="at least 8"):
        LivePage(host, token="short")
    assert LivePage(host, token="long enough").token == "long enough"
    assert len(LivePage(host).token) >= 32


def test_a_port_in_use_is_named(page):
    page.start()
    with pytest.raises(OSError, match=f"127.0.0.1:{page.port}: .*Try another port"):
        LivePage(port=page.port).start()
    with pytest.raises(RuntimeError, match="already"):
        page.start()


class Broken(BaseEstimator):
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
    assert page._current["totals"]["rows"] == history.rows
    wait_until_due(page)
    page.publish(Broken(), history, {})
    page.finish()
    assert page._current["state"].startswith("Finished")
    assert page._current["finished"]
    assert page._current["totals"]["rows"] == history.rows
    page.stop()
    page.stop()
    page.publish(None, history, {})


def test_publishing_is_rare_and_the_end_is_the_last_state(page):
    page.interval = 3600.0
    history = History()
    for _ in range(100):
        history.observe(["a"], ["a"], seconds=0)
        page.publish(None, history, {})
    assert (page._current["number"], page._current["totals"]["rows"]) == (1, 1)
    page.finish()
    assert page._current["totals"]["rows"] == 100
    assert page._current["state"].startswith("Finished")


def test_a_slow_state_is_taken_less_often(page, monkeypatch):
    clock = [100.0]

    def slow(*_, **__):
        clock[0] += 0.03
        return {}

    monkeypatch.setattr("kampong.report.live.take", slow)
    monkeypatch.setattr("kampong.report.live.time", SimpleNamespace(monotonic=lambda: clock[0]))
    page.interval = 0.0
    start, numbers = page._current["number"], []
    for clock[0] in (100.0, 100.1, 100.5, 101.02, 101.04, 101.05, 102.06, 102.08):
        page.publish(None, History(), {})
        numbers.append(page._current["number"] - start)
    # 0.03 s is 3 % of 1 s, counted from the end of each
    assert numbers == [1, 1, 1, 1, 2, 2, 2, 3]


def state_of(port, seen=-1):
    status, headers, _ = ask(port, f"/data?seen={seen}")
    return status, headers


def test_a_reader_gets_the_next_state_when_it_comes_and_only_then(page, monkeypatch):
    monkeypatch.setattr("kampong.report.live.LONGEST_WAIT", 0.3)
    page.interval = 0.0
    page.start()
    assert state_of(page.port)[0] == 200
    assert state_of(page.port, seen=0)[0] == 204  # nothing new in 0.3 s
    for odd in ("x", "9" * 40, "--1", "1.5", ""):
        assert state_of(page.port, seen=odd)[0] in (200, 204)
    _, history = last(run_stream(3, 4))
    monkeypatch.setattr("kampong.report.live.LONGEST_WAIT", 20.0)
    found = []
    reader = threading.Thread(target=lambda: found.append(json.loads(gzip.decompress(raw(page.port, "/data?seen=0")))))
    reader.start()
    time.sleep(0.2)
    assert not found
    page.publish(None, history, {})
    reader.join(10)
    assert found[0]["number"] == 1
    assert found[0]["totals"]["rows"] == history.rows
    report = raw(page.port, "/report.html").decode()
    assert f'"rows":{history.rows}' in report


def test_stopping_says_nothing_to_those_who_wait(page, caplog, capfd):
    page.start()
    readers = [threading.Thread(target=raw, args=(page.port, "/data?seen=0")) for _ in range(5)]
    for reader in readers:
        reader.start()
    time.sleep(0.3)
    page.stop()
    for reader in readers:
        reader.join(10)
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err


def raw(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_a_reader_who_never_reads_holds_nobody_up(page):
    page.interval = 0.0
    page.start()
    _, history = last(run_stream(20, 20))
    slow = socket.create_connection(("127.0.0.1", page.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    for _ in range(50):
        slow.sendall(b"GET /data?seen=-1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    wait_until_due(page)
    page.publish(None, history, {})
    assert json.loads(gzip.decompress(raw(page.port, "/data?seen=-1")))["totals"]["rows"] == history.rows
    slow.close()
    page.stop()
