"""What a notebook shows of a fitted model: what it has learnt, what was chosen, and a small map of its classes.

Nothing is solved for it: a model that has only accumulated rows says so.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.utils import estimator_html_repr

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.estimators.subspace import DiscriminantSubspace
    from kampong.predictor import Predictor

COLOURS = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
"""Paul Tol's "muted" palette, as in `kampong.report`."""

WIDTH, HEIGHT, ROOM = 300, 200, 26
NAMED = 24
"""Above this many classes the map has points without names."""

STYLE = (
    "display:flex;flex-wrap:wrap;gap:18px;align-items:flex-start;font-family:sans-serif;font-size:13px;"
    "border:1px solid currentColor;border-radius:4px;padding:8px 12px;margin-top:6px;width:fit-content;opacity:0.95"
)


def repr_html(self: DiscriminantSubspace) -> str:
    """Return scikit-learn's diagram, and for a fitted model what it found."""
    if not self.__sklearn_is_fitted__():
        return str(estimator_html_repr(self))
    # scikit-learn reads every fitted attribute for its diagram, which would solve
    page = estimator_html_repr(clone(self) if self._known() is None else self)
    return f'{page}<div class="kampong-model" style="{STYLE}">{_table(self)}{_map(self)}</div>'


def repr_mimebundle(self: DiscriminantSubspace, **_: Any) -> dict[str, str]:
    """Return what Jupyter asks for; scikit-learn 1.6 would leave our page out."""
    found = {"text/plain": repr(self)}
    tools: Any = sklearn  # it does not tell mypy what it exports
    if tools.get_config()["display"] == "diagram":
        found["text/html"] = repr_html(self)
    return found


def _table(model: Any) -> str:
    known: Predictor | None = model._known()
    counts = model.class_counts_
    lines = [
        ("learnt", f"{model.n_samples_seen_:,} rows, {model.n_features_in_:,} columns, {len(counts)} classes"),
    ]
    if known is None:
        lines.append(("solved", "not yet: the next transform or predict does it"))
    else:
        shown = int(np.count_nonzero(np.abs(known.components).any(axis=1)))
        lines += [
            ("directions", f"{shown}, by the {known.solver} solver"),
            ("head", known.head.name),
        ]
        lines.append((known.criterion.parameter, f"{known.criterion.value:.4g}{_how(known, model)}"))
        if hasattr(model, "gamma_"):
            lines.append(("gamma", f"{model.gamma_:.4g}"))
        if known.remark:
            lines.append(("note", known.remark))
    rows = "".join(
        f'<tr><th style="text-align:left;padding-right:12px">{html.escape(name)}</th>'
        f'<td style="text-align:left;max-width:340px">{html.escape(text)}</td></tr>'
        for name, text in lines
    )
    return f"<table>{rows}</table>"


def _how(known: Predictor, model: Any) -> str:
    """Say whether the parameter of the criterion was chosen."""
    chosen = known.choice is not None and len(known.choice.values) and getattr(model, "_width", None) is None
    return f", chosen by {known.choice.n_rows:,} rows held out" if chosen and known.choice is not None else ""


def _map(model: Any) -> str:
    """Return the class means in the first two directions as an SVG; the area of a point is the weight of its class."""
    known: Predictor | None = model._known()
    if known is None:
        return ""
    counts = np.asarray(model.class_counts_)
    seen = np.flatnonzero(counts > 0)
    centres, names = known.centres[seen], known.classes[seen]
    one = centres.shape[1] == 1 or not np.ptp(centres[:, 1:2])
    up = np.arange(len(seen), dtype=float) if one else centres[:, 1]
    across, height = _fitted(centres[:, 0], WIDTH), HEIGHT - _fitted(up, HEIGHT)
    sizes = 3.0 + 6.0 * np.sqrt(counts[seen] / counts.max())
    parts = []
    for number, (x, y, size, name) in enumerate(zip(across, height, sizes, names, strict=True)):
        colour, text = COLOURS[number % len(COLOURS)], html.escape(_short(name))
        title = f"<title>{html.escape(str(name))}: {counts[seen][number]:,.6g}</title>"
        place = f'cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"'
        parts.append(f'<circle {place} fill="{colour}" fill-opacity="0.8">{title}</circle>')
        if len(seen) <= NAMED:
            side = "end" if x > WIDTH / 2 else "start"
            place = f'x="{x + (-size - 2 if side == "end" else size + 2):.1f}" y="{y + 4:.1f}"'
            parts.append(f'<text {place} text-anchor="{side}" font-size="11" fill="currentColor">{text}</text>')
    label = "the class means in direction 1" + ("" if one else " (across) and 2 (up)")
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}"'
    frame = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" stroke-opacity="0.3"/>'
    return (
        f'<figure style="margin:0"><svg {box}>{frame}{"".join(parts)}</svg>'
        f'<figcaption style="font-size:11px">{label}</figcaption></figure>'
    )


def _fitted(values: Float, size: float) -> Float:
    """Return places inside a side of the picture."""
    spread = float(np.ptp(values))
    if not spread:
        return np.full(len(values), size / 2)
    return np.asarray(ROOM + (values - values.min()) / spread * (size - 2 * ROOM))


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 16 else f"{text[:15]}…"
