"""The words of README, guide and docstrings: those of the project's old dialect, counted, and how long sentences are.

Printed are the occurrences of each word in documents and in the package, and the words per sentence and the Flesch
reading ease of README, guide and docstrings, with those of scikit-learn's and river's docstrings to compare with. Then
the READMEs of peers, where they are installed: words without code, seconds of reading until the first Python code, and
how many of the paragraphs that claim a virtue have a figure, a link or a command.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIALECT = (
    "alike",
    "anew",
    "badness",
    "bend",
    "beside",
    "dear",
    "dearer",
    "for_a_while",
    "held_against",
    "held_back",
    "in_hand",
    "in_view",
    "judge",
    "judged",
    "judges",
    "judging",
    "likewise",
    "mend",
    "mended",
    "mends",
    "of_late",
    "one_of_both",
    "past_#",
    "settled",
    "so_many",
    "strangers",
    "trouble",
    "what_answers",
    "what_predicts",
)
"""Words to replace; `_` is a blank, `#` a digit."""

RATES = (
    r"(?:one|an?|several|many|two) (?:[a-z]+ )?"
    r"(?:label|score|covariance|direction|line|number|column)s? an? (?:class|row|column|direction)\b"
)
"""A rate without "per"."""


WORD = r"[A-Za-z]+(?:['-][A-Za-z]+)*"

READ = 238 / 60
"""Words that an adult reads per second: the mean of 190 studies (Brysbaert, 2019)."""

VIRTUE = (
    r"\b(?:accura\w+|fast\w*|exact\w*|efficien\w+|scal(?:e|es|able)|robust|eas(?:y|ily)|simple\w*|superior|"
    r"state-of-the-art|best|calibrated|flexib\w+|high quality|quick\w*|user-friendly)\b"
)

EVIDENCE = r"\]\(|`_|\d\s?%|\d\.\d|\d\s?×|\d (?:seconds|minutes)|`[a-z]+ [^`]*`|https?://"
"""A link, a figure or a command."""


def main(shrink: int = 1) -> None:
    """Print the counts and the lengths."""
    del shrink
    documents, package = occurrences(documents_of(ROOT)), occurrences(sources_of(ROOT / "src"))
    print(f"{'word':14} {'documents':>10} {'package':>8}")
    for word in (*DIALECT, "a per rate"):
        if documents[word] or package[word]:
            print(f"{word.replace('_', ' '):14} {documents[word]:10} {package[word]:8}")
    print(f"{'all':14} {documents.total():10} {package.total():8}\n")
    print(f"{'text':34} {'words':>8} {'a sentence':>11} {'Flesch':>7}")
    texts = {"README": (ROOT / "README.md").read_text()}
    texts["guide"] = "\n\n".join(path.read_text() for path in sorted((ROOT / "docs" / "guide").glob("*.md")))
    prose = {name: without_code(text) for name, text in texts.items()}
    prose["docstrings of kampong"] = docstrings(ROOT / "src" / "kampong")
    for peer in ("sklearn", "river"):
        spec = importlib.util.find_spec(peer)
        if spec is None or spec.origin is None:
            print(f"{peer} is not installed, so its docstrings are left out")
        else:
            prose[f"docstrings of {peer}"] = docstrings(Path(spec.origin).parent)
    for name, text in prose.items():
        words, length, ease = readability(text)
        print(f"{name:34} {words:8} {length:11.1f} {ease:7.1f}")

    print(f"\n{'README of':14} {'words':>6} {'seconds to code':>16} {'claims':>7} {'with evidence':>14}")
    for name in ("kampong", "skglm", "river", "umap-learn"):
        try:
            text = texts["README"] if name == "kampong" else str(metadata(name)["Description"] or "")
        except PackageNotFoundError:
            print(f"{name} is not installed, so its README is left out")
            continue
        made = claims(text)
        words = len(re.findall(WORD, plain(text)))
        print(f"{name:14} {words:6} {seconds_to_code(text):16.0f} {len(made):7} {sum(made):14}")


def documents_of(root: Path) -> list[Path]:
    """Return the pages that people read, without those that are built."""
    pages = [root / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")]
    return pages + [path for path in sorted((root / "docs").rglob("*.md")) if "gallery" not in path.parts]


def sources_of(folder: Path) -> list[Path]:
    """Return the files of the package."""
    return sorted(folder.rglob("*.py"))


def occurrences(paths: list[Path]) -> Counter[str]:
    """Return how often each word of the dialect stands in files."""
    found: Counter[str] = Counter()
    for path in paths:
        text = path.read_text()
        for word in DIALECT:
            pattern = re.escape(word).replace("_", r"\s+").replace(r"\#", r"\d")
            found[word] += len(re.findall(rf"(?<![\w-]){pattern}(?:\b|(?<=\d))", text, re.IGNORECASE))
        found["a per rate"] += len(re.findall(RATES, text, re.IGNORECASE))
    return found


def without_code(text: str) -> str:
    """Return the sentences of a page of Markdown: no code, tables, addresses or headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?:\||#|!\[|:|\s*-{3}).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


def plain(text: str) -> str:
    """Return the words of a README in Markdown or reStructuredText that a reader sees, tables included."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\.\. .*\n(?:[ \t]+.*\n|[ \t]*\n)*", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->|<[^>]*>", "", text, flags=re.DOTALL)
    return re.sub(r"!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|https?://\S+", "]", text)


def seconds_to_code(text: str) -> float:
    """Return how long a reader takes from the top of a README to its first block of Python, in seconds."""
    found = re.search(r"^(?:```\s*(?:python|py|pycon)\b|\.\. code(?:-block)?:: python|\s*>>> )", text, re.MULTILINE)
    return len(re.findall(WORD, plain(text[: found.start()]))) / READ if found else float("nan")


def claims(text: str) -> list[bool]:
    """Return for each paragraph, list item and row of a table that claims a virtue whether it has evidence."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = [part.strip() for part in re.split(r"\n\s*\n|\n(?=\s*[-*|] ?)", text)]
    claimed = [part for part in parts if part[:1] != "#" and re.search(VIRTUE, plain(part), re.IGNORECASE)]
    return [bool(re.search(EVIDENCE, part)) for part in claimed]


def docstrings(folder: Path) -> str:
    """Return the first paragraphs of all docstrings below a folder, where sentences are."""
    found = []
    for path in sources_of(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                found += [] if text is None else [re.split(r"\n\n", text)[0].replace("\n", " ")]
    return "\n\n".join(found)


def readability(text: str) -> tuple[int, float, float]:
    """Return the number of words, words per sentence, and the Flesch reading ease; a code span counts as one word."""
    text = re.sub(r"`[^`]*`", "code", text)
    sentences = [one for one in re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*- ", text) if re.search(r"[A-Za-z]{2}", one)]
    words = re.findall(WORD, text)
    syllables = sum(max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower())))) for word in words)
    length = len(words) / max(len(sentences), 1)
    return len(words), length, 206.835 - 1.015 * length - 84.6 * syllables / max(len(words), 1)
