"""The package: what an index shows of it, and entry points that name the extra where its packages are not installed."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kampong

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hook():
    pytest.importorskip("hatchling", reason="hatchling builds the package")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(text):
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_the_readme_leads_to_the_home_that_is_given_or_nowhere(hook):
    text = (ROOT / "README.md").read_text()
    relative = [target for target in targets(text) if not target.startswith(("http", "#"))]
    assert relative
    assert all((ROOT / target.partition("#")[0]).exists() for target in relative)
    whole = hook.readme(text, "https://example.org/kampong")
    assert all(target.startswith(("https://", "#")) for target in targets(whole))
    assert "](https://example.org/kampong/raw/main/docs/pictures/late_classes.png)" in whole
    assert "[CONTRIBUTING.md](https://example.org/kampong/blob/main/CONTRIBUTING.md)" in whole
    bare = hook.readme(text, "")
    assert [target for target in targets(bare) if not target.startswith(("http", "#"))] == []
    assert "CONTRIBUTING.md" in bare
    assert "![" not in bare
    assert hook.urls("") == {}
    assert hook.urls("https://example.org/kampong")["Issues"] == "https://example.org/kampong/issues"


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {kampong.__version__}\n" in citation
    assert re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1).rstrip(",") == (
        kampong.__version__
    )
    assert citation.count("  - type: ") == 5


def test_workflows_run_no_action_that_can_change_under_them():
    used = []
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        used += re.findall(r"uses: (.+)", text)
        assert "secrets." not in text, "publishing is by trusted publishing, without a token"
        assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE), f"{path.name} may write"
        assert re.search(r"^concurrency:", text, re.MULTILINE)
        checkouts = text.count("actions/checkout@")
        assert text.count("persist-credentials: false") == checkouts
    assert len(used) > 5
    assert [name for name in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)] == []


def test_only_the_job_that_publishes_gets_a_token():
    build, publish = (ROOT / ".github" / "workflows" / "publish.yml").read_text().split("\n  publish:\n")
    assert "id-token: write" not in build
    assert "make package smoke" in build
    assert "id-token: write" in publish
    assert "attestations: true" in publish
    assert "run:" not in publish, "nothing of the repository runs where the token is"


def test_hooks_of_a_commit_have_the_versions_of_make_check():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    locked = (ROOT / "requirements" / "locked.txt").read_text()
    for name, repository in (("ruff", "ruff-pre-commit"), ("codespell", "codespell")):
        (version,) = re.findall(rf"^{name}==([^ ;\\]+)", locked, re.MULTILINE)
        assert re.search(rf"/{repository}\n    rev: v{re.escape(version)}\n", hooks), name


def test_smoke_runs_wherever_a_package_is_built():
    commands = [(ROOT / ".ci" / "run").read_text(), (ROOT / ".github" / "workflows" / "ci.yml").read_text()]
    assert all("make check package smoke" in text for text in commands)


ALONE = """
import json
import sys

hidden, entrances = json.loads(sys.argv[1])

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["kampong", "--help"]
from sklearn.datasets import load_iris
from kampong import FisherDiscriminant

X, y = load_iris(return_X_y=True)
model, said = FisherDiscriminant(ridge=0.1).fit(X, y), {}
for name, code in entrances.items():
    try:
        exec(code)
    except (ModuleNotFoundError, SystemExit) as error:
        said[name] = str(error)
print(json.dumps(said))
"""

ENTRANCES = {
    "dask": "from kampong.adapters import dask",
    "river": "from kampong.adapters import river",
    "onnx": "from kampong.adapters import onnx",
    "mlflow": "from kampong.adapters import mlflow",
    "spark": "from kampong.adapters import spark; spark.predict(model, None)",
    "spark to fit": "from kampong.adapters import spark; spark.fit(model, None, 'y', 'x')",
    "stream": "from kampong.streaming import learn",
    "stream by its command": "from kampong.__main__ import main; main()",
    "stream and its report": "from kampong.report import write_report",
    "stream and its page": "from kampong.report import LivePage",
    "plot": "from kampong.report import ClassMapDisplay; ClassMapDisplay.from_estimator(model, X, y)",
    "plot by a function": "from kampong.report import draw_classes; draw_classes(X[:, :2], y)",
    "plot of columns": "from kampong.report import LoadingsDisplay; LoadingsDisplay.from_estimator(model)",
    "plot of margins": "from kampong.report import MarginDisplay; "
    "MarginDisplay.from_estimator(FisherDiscriminant().fit(X[:, :2], y), X[:, :2], y)",
}
OPENED = "from kampong.streaming import Layout, Source; Source({!r}, Layout(label='y', format={!r})).open()"
SERVERS = {
    "sql": OPENED.format("duckdb:///rows.duckdb?table=rows&order_by=n", "auto"),
    "sql of a server": OPENED.format("postgresql://localhost/rows?table=rows&order_by=n", "auto"),
    "redis": OPENED.format("redis://localhost/rows", "jsonl"),
    "nats": OPENED.format("nats://localhost/rows", "jsonl"),
    "kafka": OPENED.format("kafka://localhost/rows", "jsonl"),
}
"""What needs the `stream` extra too: only the clients of servers are hidden from it."""

CLIENTS = ["duckdb", "adbc_driver_postgresql", "redis", "nats", "confluent_kafka"]


@pytest.mark.parametrize("entrances", [ENTRANCES, SERVERS], ids=["entrances", "servers"])
def test_without_its_extra_every_entry_point_names_it(entrances):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needs = {re.match(r"[\w-]+", need).group() for listed in extras.values() for need in listed}
    assert {name.partition(" ")[0] for name in (*ENTRANCES, *SERVERS)} == set(extras)
    task = json.dumps([CLIENTS if entrances is SERVERS else [*needs, "distributed", "onnx"], entrances])
    found = subprocess.run([sys.executable, "-c", ALONE, task], capture_output=True, text=True, check=True)
    said = json.loads(found.stdout)
    for entrance in entrances:
        name = entrance.partition(" ")[0]
        wanted = (
            rf'needs \w+, which is not installed\. Install the {name} extra: pip install "\.\[{name}\]" in the source'
        )
        assert re.search(wanted, said.get(entrance, "nothing")), (entrance, said.get(entrance))


TYPED = ALONE.partition("sys.argv =")[0] + 'sys.argv = ["kampong", *entrances]; from kampong.cli import main; main()'


@pytest.mark.parametrize("command", [["learn", "-l", "kind"], ["predict"]], ids=["learn", "predict"])
def test_a_source_without_its_extra_is_one_line_on_the_command_line(tmp_path, command):
    kampong.FisherDiscriminant(ridge=0.1).fit([[0.0], [1.0], [2.0]], [0, 1, 1]).save(tmp_path / "saved")
    model = tmp_path / ("saved" if command == ["predict"] else "new")
    task = json.dumps([CLIENTS, [*command, "redis://localhost/rows", "-m", str(model)]])
    done = subprocess.run([sys.executable, "-c", TYPED, task], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("kampong: redis:// needs redis, which is not installed. Install the redis extra: pip")
