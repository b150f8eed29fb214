"""The page on deployment: its commands run as they are printed, and print what the page shows."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the server needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the server needs the `stream` extra")
pytest.importorskip("tornado", reason="the server needs the `stream` extra")
pytest.importorskip("pandas", reason="the page begins with a table")

from serving_problems import LEARN, READ, Process

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "deploy.md").read_text()
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_what_it_shows(tmp_path, monkeypatch):
    shell = shutil.which("bash")
    if shell is None or shutil.which("curl") is None:
        pytest.skip("the commands of the page need bash and curl")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE)
    assert blocks[0][0] == "python"
    exec(compile(blocks[0][1], "deploy.md", "exec"), {"__name__": "__main__"})
    start = next(text for kind, text in blocks if text.startswith("kampong serve"))
    words = start.split()[2:]
    assert words[-2:] == ["--port", "8080"]
    compared = 0
    with Process(*words[:-2]) as process:
        server = f"http://127.0.0.1:{process.port}"
        more = {"SERVER": server, "KAMPONG_TOKEN": READ, "KAMPONG_LEARN_TOKEN": LEARN}
        for (kind, text), (following, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
            if kind != "sh" or "curl" not in text:
                continue
            words = [shell, "-c", f"set -o pipefail; {text}"]
            done = subprocess.run(words, env={**os.environ, **more}, capture_output=True, text=True, check=False)
            assert done.returncode == 0, text + done.stderr
            assert '"error"' not in done.stdout, text + done.stdout
            if following == "text":
                assert done.stdout.strip() == shown.strip(), text
                compared += 1
        assert process.stop() == 0
    assert compared >= 5
