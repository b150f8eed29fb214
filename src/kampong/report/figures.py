"""The figures of a stream, for the report and the live page alike: one layout, from a snapshot, that can be updated."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    FixedTicker,
    HoverTool,
    InlineStyleSheet,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.widgets import DataTable, Div, NumberFormatter, StringFormatter, TableColumn
from bokeh.plotting import figure

from kampong.report.class_picture import ClassPicture
from kampong.report.pictures import PALETTE
from kampong.report.snapshot import take
from kampong.streaming.history_state import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.report.snapshot import Snapshot
    from kampong.streaming.history import History

DARK, FIRST, SECOND = "#1a1a1a", "#332288", "#CC6677"
MOST_DRIFTING, SURE = 12, 2.0
"""At most so many classes are shown as drifting; each has changed by at least so many standard errors."""

# One column on a phone, two on a wide screen.
_GRID = """
:host { display: grid !important; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr));
  gap: 28px 36px; max-width: 1400px; margin: 0 auto; padding: 16px; box-sizing: border-box; align-items: start; }
"""
_TEXT = """
:host { color: #1a1a1a; font-family: system-ui, sans-serif; font-size: 15px; line-height: 1.45; }
.bk-clearfix { width: 100%; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 10px 0 2px; }
p { margin: 0 0 6px; color: #444; max-width: 70ch; } p.empty { color: #1a1a1a; font-style: italic; }
dl.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); gap: 10px; margin: 12px 0 0; }
dl.tiles div { border: 1px solid #d0d0d0; border-radius: 6px; padding: 8px 10px; }
dl.tiles dt { color: #444; font-size: 13px; } dl.tiles dd { margin: 0; font-size: 20px; font-weight: 600; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { text-align: left; padding: 3px 12px 3px 0; vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 500; color: #444; width: 40%; } tr { border-bottom: 1px solid #e4e4e4; }
"""


class Figures:
    """All figures of one page.

    Parameters
    ----------
    snapshot : Snapshot
        What to show first.

    Attributes
    ----------
    layout : Column
        The page: one column on a narrow screen, two on a wide one.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._progress = ColumnDataSource(data=snapshot.progress, name="progress")
        self._classes = ColumnDataSource(data=snapshot.classes, name="classes")
        self._drift = ColumnDataSource(data=_drifting(snapshot), name="drift")
        self._header, self._facts, self._provenance = _text(name="header"), _text(name="facts"), _text()
        self._picture = ClassPicture(snapshot, self._classes)
        _dark(self._picture.plot)
        self._headings = {name: _text(name=f"heading-{name}") for name in _HEADINGS}
        self._accuracy = self._lines(
            "accuracy",
            [("accuracy", "all rows so far", FIRST), ("recent", "recent rows", SECOND)],
            "rows predicted rightly",
            "0.[00]%",
        )
        eigenvalues = [(f"e{place + 1}", f"{place + 1}", colour) for place, colour in enumerate(PALETTE[:DIRECTIONS])]
        self._eigenvalues = self._lines("eigenvalues", eigenvalues, "eigenvalue", "0.[000]a")
        self._epsilon = self._lines("epsilon", [("epsilon", "", FIRST)], "ε", "0.[0000]")
        self._speed = self._lines("speed", [("speed", "", FIRST)], "rows per second", "0.[0]a")
        self._dead = self._lines("dead", [("dead", "", SECOND)], "dead letters so far", "0.[0]a")
        self._dumbbells, self._table = self._drift_figure(), self._class_table()
        sections = {
            "classes": self._picture.parts,
            "accuracy": [self._accuracy],
            "drift": [self._dumbbells],
            "table": [self._table],
            "eigenvalues": [self._eigenvalues],
            "epsilon": [self._epsilon],
            "speed": [self._speed],
            "dead": [self._dead],
        }
        self._sections = sections
        self._header.styles = {"grid-column": "1 / -1"}
        cells = [
            _section(*[part for name in names for part in (self._headings[name], *sections[name])]) for names in _CELLS
        ]
        self.layout = column(
            self._header,
            *cells,
            _section(self._facts),
            _section(self._provenance),
            sizing_mode="stretch_width",
            stylesheets=[InlineStyleSheet(css=_GRID)],
            name="page",
        )
        self.update(snapshot)

    def update(self, snapshot: Snapshot) -> None:
        """Show another snapshot; what the reader chose stays."""
        self._header.text = _header(snapshot)
        self._facts.text = _pairs("Model", snapshot.facts, "no model yet")
        self._provenance.text = _pairs("Provenance", snapshot.provenance, "nothing was recorded")
        self._progress.data, self._classes.data = snapshot.progress, snapshot.classes
        for place, item in enumerate(self._eigenvalues.legend[0].items):
            item.visible = self._eigenvalues.renderers[place].visible = place < snapshot.n_eigenvalues
        self._table.height = min(360, 32 + 26 * len(snapshot.classes["name"]))
        self._moved.visible = bool(np.isfinite(snapshot.classes["movement"]).any())
        self._update_drift(snapshot)
        self._picture.update(snapshot)
        for name, (title, caption, missing) in _HEADINGS.items():
            reason = missing(snapshot)
            caption = f"<p>{escape(caption.format(recent=snapshot.recent_rows))}</p>"
            self._headings[name].text = f"<h2>{title}</h2>" + (
                f'<p class="empty">{escape(reason)}</p>' if reason else caption
            )
            for part in self._sections[name]:
                part.visible = not reason

    def _lines(self, name: str, lines: Sequence[tuple[str, str, str]], label: str, number_format: str) -> Any:
        """Return a figure of columns over the rows so far."""
        plot: Any = figure(
            height=280,
            sizing_mode="stretch_width",
            tools="pan,xwheel_zoom,box_zoom,reset",
            active_drag=None,
            name=name,
        )
        for field, text, colour in lines:
            named = {"legend_label": text} if text else {}
            plot.line("rows", field, source=self._progress, color=colour, line_width=2, **named)
        first = [plot.renderers[0]]
        tips = [("rows", "@rows{0,0}"), *[(text or label, f"@{field}{{{number_format}}}") for field, text, _ in lines]]
        plot.add_tools(HoverTool(renderers=first, mode="vline", tooltips=tips[: 1 + DIRECTIONS]))
        plot.xaxis.axis_label, plot.yaxis.axis_label = "rows so far", label
        plot.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        plot.yaxis.formatter = NumeralTickFormatter(format=number_format)
        if len(lines) > 1:
            legend = plot.legend[0]
            legend.orientation, legend.label_text_color, legend.border_line_color = "horizontal", DARK, None
            legend.ncols, legend.spacing, legend.padding = 4, 12, 4
            plot.add_layout(legend, "above")
        _dark(plot)
        return plot

    def _drift_figure(self) -> Any:
        plot: Any = figure(
            height=300,
            sizing_mode="stretch_width",
            tools="",
            toolbar_location=None,
            y_range=Range1d(start=0, end=1),
            name="drift",
        )
        plot.segment("past", "place", "recent", "place", source=self._drift, color="#8a8a8a", line_width=3)
        before = plot.scatter(
            "past", "place", source=self._drift, size=11, color="white", line_color=FIRST, legend_label="before"
        )
        recent = plot.scatter("recent", "place", source=self._drift, size=11, color=SECOND, legend_label="recent")
        tips = [("class", "@name"), ("before", "@past{0.0%}"), ("recent", "@recent{0.0%}")]
        tips += [("rows", "@rows{0,0}"), ("change", "@errors{0.0} standard errors")]
        plot.add_tools(HoverTool(renderers=[before, recent], tooltips=tips))
        plot.xaxis.axis_label = "rows of the class predicted rightly"
        plot.xaxis.formatter = NumeralTickFormatter(format="0.[0]%")
        plot.yaxis.ticker, plot.ygrid.grid_line_color = FixedTicker(ticks=[]), None
        legend = plot.legend[0]
        legend.orientation, legend.label_text_color, legend.border_line_color = "horizontal", DARK, None
        plot.add_layout(legend, "above")
        _dark(plot)
        return plot

    def _class_table(self) -> DataTable:
        share, plain = NumberFormatter(format="0.0%", nan_format="–"), NumberFormatter(format="0,0", nan_format="–")
        distance = NumberFormatter(format="0.0", nan_format="–")
        self._moved = TableColumn(field="movement", title="moved", formatter=distance, width=55)
        columns = [
            TableColumn(field="name", title="class", formatter=StringFormatter(), width=110),
            TableColumn(field="rows", title="rows", formatter=plain, width=70),
            TableColumn(field="past", title="before", formatter=share, width=60),
            TableColumn(field="recent", title="recent", formatter=share, width=60),
            self._moved,
        ]
        table = DataTable(
            source=self._classes,
            columns=columns,
            index_position=None,
            autosize_mode="force_fit",
            reorderable=False,
            selectable=False,
            height=360,
            sizing_mode="stretch_width",
            name="table",
        )
        # bokeh does not redraw a table by itself if its number of rows is the same.
        again = CustomJS(args={"view": table.view}, code="view.change.emit()")
        self._classes.js_on_change("data", again)
        return table

    def _update_drift(self, snapshot: Snapshot) -> None:
        columns = _drifting(snapshot)
        n = len(columns["name"])
        self._drift.data = columns
        self._dumbbells.height = 110 + 26 * n
        self._dumbbells.y_range.start, self._dumbbells.y_range.end = n - 0.5, -0.5
        self._dumbbells.yaxis[0].ticker.ticks = list(range(n))
        self._dumbbells.yaxis[0].major_label_overrides = {
            place: (name if len(name) <= 16 else name[:15] + "…").replace("$$", "$ $")
            for place, name in enumerate(columns["name"])
        }


def figures(model: Any, history: History, **texts: Any) -> Any:
    """Return the figures of a model and the history of its stream as one bokeh layout.

    Parameters
    ----------
    model : object or None
        An estimator of the library.
    history : History
        The course of its stream.
    **texts : object
        `title`, `state`, `counters` and `provenance`, as `kampong.report.snapshot.take` has them.

    Returns
    -------
    Column
        A layout for `bokeh.plotting.show`, a document or a server.
    """
    return Figures(take(model, history, **texts)).layout


def _no_rows(snapshot: Snapshot) -> str:
    return "" if len(snapshot.progress["rows"]) and snapshot.progress["rows"][-1] > 0 else "no labelled rows yet"


def _no_points(snapshot: Snapshot) -> str:
    if _no_rows(snapshot):
        return _no_rows(snapshot)
    return "" if len(snapshot.points["label"]) else "no directions yet: they need rows of two classes"


def _no_classes(snapshot: Snapshot) -> str:
    return "" if len(snapshot.classes["name"]) else "no labelled rows yet"


def _no_drift(snapshot: Snapshot) -> str:
    if _no_classes(snapshot):
        return "no labelled rows yet"
    if not np.isfinite(snapshot.classes["change"]).any():
        return "nothing to compare yet: all rows so far are recent"
    sure = np.abs(snapshot.classes["errors"]) >= SURE
    return "" if sure.any() else "no class changed by more than two standard errors"


def _no_eigenvalues(snapshot: Snapshot) -> str:
    return "" if snapshot.n_eigenvalues else "no directions yet: they need rows of two classes"


def _no_epsilon(snapshot: Snapshot) -> str:
    known = snapshot.progress["epsilon"]
    known = known[~np.isnan(known)]
    if not len(known):
        return "the model has no ε, or none is known yet"
    return f"ε = {known[0]:.4g} throughout" if (known == known[0]).all() else ""


def _no_speed(snapshot: Snapshot) -> str:
    return "" if np.isfinite(snapshot.progress["speed"]).any() else "no labelled rows yet"


def _no_dead(snapshot: Snapshot) -> str:
    dead = snapshot.progress["dead"]
    return "" if len(dead) and dead[-1] > 0 else "no dead letters: every record could be used"


# What is shown together in a cell of the grid.
_CELLS = [("classes",), ("accuracy", "speed"), ("drift",), ("table",), ("eigenvalues",), ("dead", "epsilon")]

# Title, caption, and the text shown if there is nothing to draw.
_HEADINGS: dict[str, tuple[str, str, Any]] = {
    "classes": ("Classes in the subspace", "A sample of the latest rows. Hover over a point to read it.", _no_points),
    "accuracy": ("Accuracy", "Each row is predicted before it is learnt.", _no_rows),
    "drift": (
        "Drift",
        "The classes whose accuracy changed most surely: the latest {recent:,} rows against all before.",
        _no_drift,
    ),
    "table": (
        "All classes",
        "Accuracy before and in the latest {recent:,} rows. Moved: from the mean of the class over the whole stream to "
        "its latest points, in spreads of a class, chance taken off.",
        _no_classes,
    ),
    "eigenvalues": ("Eigenvalues", "What each of the leading directions adds to the criterion.", _no_eigenvalues),
    "epsilon": ("ε", "The weight of the spread within the classes.", _no_epsilon),
    "speed": ("Speed", "Over the latest rows.", _no_speed),
    "dead": ("Dead letters", "Records that could not be used.", _no_dead),
}


def _drifting(snapshot: Snapshot) -> dict[str, Any]:
    """Return the rows of the class table that changed most surely, falls before rises."""
    errors = snapshot.classes["errors"]
    size = np.abs(np.where(np.isnan(errors), 0.0, errors))
    order = np.argsort(-size, kind="stable")
    order = order[size[order] >= SURE][:MOST_DRIFTING]
    order = order[np.argsort(errors[order], kind="stable")]
    chosen = {
        name: [values[place] for place in order] if name == "name" else np.asarray(values)[order]
        for name, values in snapshot.classes.items()
    }
    return chosen | {"place": np.arange(len(order), dtype=np.float64)}


def _header(snapshot: Snapshot) -> str:
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in snapshot.summary)
    return f'<h1>{escape(snapshot.title)}</h1><p>{escape(snapshot.state)}</p><dl class="tiles">{tiles}</dl>'


def _pairs(title: str, pairs: list[tuple[str, str]], missing: str) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in pairs)
    return f"<h2>{title}</h2>" + (f"<table>{rows}</table>" if rows else f'<p class="empty">{missing}</p>')


def _text(name: str | None = None) -> Div:
    # Class names may look like mathematical markup, which would make the browser download a renderer.
    return Div(disable_math=True, sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=_TEXT)], name=name)


def _section(*parts: Any) -> Any:
    return column(*parts, sizing_mode="stretch_width", styles={"min-width": "0"})


def _dark(plot: Any) -> None:
    """Make the text of a figure dark and large enough to read on a phone."""
    plot.toolbar.logo = None
    plot.outline_line_color = None
    for axis in plot.axis:
        axis.axis_label_text_color = axis.major_label_text_color = DARK
        axis.axis_label_text_font_style, axis.axis_label_text_font_size = "normal", "14px"
        axis.major_label_text_font_size, axis.minor_tick_line_color = "13px", None
