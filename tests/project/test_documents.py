"""The documents: their Python runs, their links lead somewhere, and every public name has a page and an example."""

import importlib
import re
import sys
from code import InteractiveInterpreter
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from sklearn.datasets import load_iris

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING"))]
PAGES = [path for path in PAGES if "gallery" not in path.parts and "generated" not in path.parts]
mpl.use("Agg")
sys.path.insert(0, str(DOCS / "_extensions"))
ROOMS = (
    "kampong",
    "kampong.datasets",
    "kampong.online",
    "kampong.report",
    "kampong.statistics",
    "kampong.streaming",
    "kampong.adapters.dask",
    "kampong.adapters.federated",
    "kampong.adapters.mlflow",
    "kampong.adapters.onnx",
    "kampong.adapters.river",
    "kampong.adapters.spark",
)


def blocks(path):
    """Return the Python of a page, one text per block, without the indentation of a list."""
    return [code for code, _ in shown_blocks(path)]


def shown_blocks(path):
    """Return the Python of a page, and the output that the page shows below each block; None if it shows none."""
    fence = r"^( *)```python\n(.*?)^ *```\n(?:\n *```output\n(.*?)^ *```)?"
    found = re.findall(fence, path.read_text(), re.MULTILINE | re.DOTALL)
    return [[re.sub(rf"^{indent}", "", part, flags=re.MULTILINE) or None for part in both] for indent, *both in found]


ELSEWHERE = {
    "cluster.md": "its blocks need a cluster",
    "replace.md": "each recipe has a test of its own",
    "extend.md": "tests/project/test_extend.py runs its blocks",
}


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg")
@pytest.mark.parametrize("path", [path for path in PAGES if blocks(path)], ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_of_a_page_runs_and_prints_what_it_shows(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    if path.name == "stream.md":  # it begins with a file of the reader
        flowers = load_iris(as_frame=True)
        rows = flowers.data.assign(species=flowers.target_names[flowers.target])
        rows.sample(frac=1, random_state=0).to_csv("flowers.csv", index=False)
    for text, shown in shown_blocks(path):
        code = compile(text, str(path), "exec")
        if path.name not in ELSEWHERE:
            capsys.readouterr()
            exec(code, names)
            assert shown in (None, capsys.readouterr().out), text
    plt.close("all")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(5), ids=("LDA", "IncrementalPCA", "river", "SetFit", "pyRiemann"))
def test_a_recipe_runs_where_its_library_is_installed(number, capsys):
    recipes = shown_blocks(DOCS / "guide" / "replace.md")
    assert len(recipes) == 5
    code, shown = recipes[number]
    for library in re.findall(r"^from (river|setfit|pyriemann)\b", code, re.MULTILINE):
        pytest.importorskip(library, reason="a peer of the recipe")
    exec(compile(code, "replace.md", "exec"), {"__name__": "__main__"})
    assert shown in (None, capsys.readouterr().out)


def test_the_sizes_at_which_something_changes_are_those_of_the_code():
    from kampong import CoreVectorClassifier
    from kampong.online.settings import Settings as online
    from kampong.selection.kernel_width import KEPT
    from kampong.selection.leave_one_out import most_rows
    from kampong.selection.settings import SETTINGS as selection
    from kampong.statistics.scatter import WIDEST
    from kampong.streaming.settings import Settings as streaming

    text = (DOCS / "which.md").read_text()
    section = text[text.index("## What changes with the number") : text.index("## What each one solves")]
    sizes = re.findall(r"^\| ([\d,]+) (?:columns|rows|stored)", section, re.MULTILINE)
    code = [
        selection.exact_columns,
        selection.leave_one_out_columns,
        WIDEST,
        streaming.narrow_columns,
        online.narrow,
        streaming.full_sample,
        KEPT,
        CoreVectorClassifier().max_stored_rows,
    ]
    assert [int(size.replace(",", "")) for size in sizes] == code
    assert f"holds {most_rows(selection.exact_columns + 1):,} rows at most" in section
    assert f"{most_rows(selection.exact_columns):,} before" in section
    assert f"Fewer than {selection.fewest_rows} validation rows" in section


README = (ROOT / "README.md").read_text()


def test_readme_shows_what_its_lines_print(capsys):
    ((code, shown),) = shown_blocks(ROOT / "README.md")
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == shown


def test_readme_lines_can_be_typed_at_the_prompt():
    (code,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    console, wrong = InteractiveInterpreter(), []
    console.runcode = lambda _: None  # only whether each statement ends where a prompt takes it as ended
    console.showsyntaxerror = lambda *_, **__: wrong.append(lines)
    lines = []
    for line in code.splitlines():
        lines = [*lines, line]
        if not console.runsource("\n".join(lines)):
            lines = []
    assert (wrong, lines) == ([], [])


def test_readme_shows_the_table_and_the_figures_of_the_kept_run():
    kept = (DOCS / "benchmarks" / "results" / "first_page.txt").read_text()
    table = kept[kept.index("| accuracy %") :]
    assert len(table.splitlines()) > 5
    assert table in README
    last = {line[:31].strip(): line.split()[-3] for line in kept.splitlines() if line.startswith("  ")}
    del last["classes so far"]
    (caption,) = re.findall(r"^!\[(.*?)\]", README, re.MULTILINE)
    for name, share in last.items():
        assert f"{float(share):.1%}".replace("%", " %") in caption, name
    assert len(re.findall(r"[\d.]+ %", caption)) == len(last)
    assert f"![{caption}]" in (DOCS / "index.md").read_text()


def test_readme_stays_short():
    text = re.sub(r"^```.*?^```|^!\[.*?\]\(.*?\)", "", README, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    words = [word for word in text.split() if re.search(r"[^\W\d]", word)]
    assert 500 <= len(words) <= 700, f"README has {len(words)} words outside its code, picture and addresses"
    assert README.count("\n## ") <= 9
    code = "\n".join(re.findall(r"^```.*?^```", README, re.MULTILINE | re.DOTALL))
    assert max(map(len, code.splitlines())) <= 79


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_is_at_most_79_columns_wide(path):
    for kind, text in re.findall(r"^ *```(\w+)\n(.*?)^ *```", path.read_text(), re.MULTILINE | re.DOTALL):
        wide = [line for line in text.splitlines() if len(line) > 79]
        assert kind not in ("python", "sh", "output") or not wide, wide


def test_each_promise_names_tests_that_exist():
    text = (DOCS / "promises.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    for file, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"
    for section in text.split("\n## ")[1:]:
        assert "`tests/" in section, f"nothing holds the promises of: {section.splitlines()[0]}"
    assert len(named) >= 20


def anchors(path):
    """Return the places of a page that a link may name: its headings, as GitHub and MyST spell them, and its labels."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    spelt = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return spelt | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place) if place else path
        if place.startswith(("gallery/", "../gallery/", "api/generated/", "../api/generated/")):
            continue  # built by Sphinx, and checked there by check_links.py
        assert file.exists(), f"{path.name}: {target}"
        if anchor and file.suffix == ".md" and not file.read_text().startswith("% from"):
            assert anchor in anchors(file), f"{path.name}: {target}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_page_and_an_example(room):
    if room.startswith("kampong.adapters."):
        library = {"dask": "dask", "river": "river", "onnx": "skl2onnx", "mlflow": "mlflow"}.get(
            room.rpartition(".")[2]
        )
        if library:
            pytest.importorskip(library, reason=f"the {library} extra")
    text = (DOCS / "api" / "index.rst").read_text()
    module, listed = "", set()
    for line in text.splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split("::")[1].strip()
        elif re.fullmatch(r"   [\w.]+", line):
            listed.add(f"{module}.{line.strip()}")
    for name in importlib.import_module(room).__all__:
        assert f"{room}.{name}" in listed, f"docs/api/index.rst lacks {room}.{name}"
        item = getattr(importlib.import_module(room), name)
        assert ">>>" in (item.__doc__ or ""), f"{room}.{name} shows no example"


def test_the_reference_lists_only_public_names():
    pytest.importorskip("sphinx", reason="the site is built with the `docs` group")
    link_names = importlib.import_module("link_names")
    assert link_names.ROOMS == ROOMS


def test_broken_links_of_a_site_are_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    broken = importlib.import_module("check_links").broken
    (tmp_path / "index.html").write_text("<a href='other.html#here'>x</a><a href='https://example.org/y'>y</a>")
    (tmp_path / "other.html").write_text("<p id='here'>z</p><a href='index.html'>back</a>")
    assert broken(tmp_path) == []
    (tmp_path / "other.html").write_text("<p id='there'>z</p><a href='absent.html'>a</a><img src='p.png'>")
    assert broken(tmp_path) == [
        "index.html: other.html#here leads to no such place on the page",
        "other.html: absent.html leads to no file",
        "other.html: p.png leads to no file",
    ]


def test_a_page_takes_parts_of_the_front_pages():
    pytest.importorskip("sphinx", reason="the site is built with the `docs` group")
    part = importlib.import_module("front_pages").part
    text = part("README.md", "## Install", "## Why kampong")
    assert text.lstrip().startswith("You need Python")
    assert "(docs/" not in text
    assert "(ARCHITECTURE.md)" not in part("CONTRIBUTING.md", None, None)


def test_formulas_become_mathml():
    pytest.importorskip("sphinx", reason="the site is built with the `docs` group")
    pytest.importorskip("latex2mathml", reason="the site is built with the `docs` group")
    nodes, mathml = importlib.import_module("docutils.nodes"), importlib.import_module("mathml")
    page = type("Page", (), {"body": []})()
    for write, node in ((mathml.inline, nodes.math), (mathml.block, nodes.math_block)):
        with pytest.raises(nodes.SkipNode):
            write(page, node(text=r"\frac{S_b}{\rho}"))
    line, block = page.body
    for text in (line, block):
        assert "<mfrac>" in text
        assert "<msub>" in text
    assert 'display="inline"' in line
    assert block.startswith('<div class="formula"><math')


def test_what_a_benchmark_prints_is_kept_below_lines_on_the_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sphinx", reason="the site is built with the `docs` group")
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.__main__")
    fake = type(sys)("benchmarks.fake")
    fake.main = lambda: print("\n  12.5 rows a second")
    monkeypatch.setitem(sys.modules, "benchmarks.fake", fake)
    monkeypatch.setattr(module, "NAMES", ["fake"])
    monkeypatch.setattr(sys, "__stdout__", sys.stdout)
    module.command(["fake", "--out", str(tmp_path)])
    assert "12.5 rows" in capsys.readouterr().out
    about, output = importlib.import_module("benchmark_results").read(tmp_path / "fake.txt")
    assert output == "  12.5 rows a second"
    assert about["command"] == "python -m benchmarks fake"
    assert set(about) >= {"kampong", "numpy", "machine", "took", "date", "commit"}
    fake.main = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        module.command(["fake", "--out", str(tmp_path)])
    assert (tmp_path / "fake.txt").read_text().endswith("  12.5 rows a second\n")


@pytest.mark.parametrize("path", sorted((DOCS / "benchmarks" / "results").glob("*.txt")), ids=lambda path: path.stem)
def test_a_kept_run_is_of_a_script_that_exists(path):
    assert (ROOT / "benchmarks" / f"{path.stem}.py").exists()
    assert path.read_text().startswith("command: python -m benchmarks ")
