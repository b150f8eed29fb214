"""The classes in two directions; the reader chooses axes, colours and classes in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.models import (
    CategoricalColorMapper,
    CDSView,
    Column,
    ColumnDataSource,
    CustomJS,
    CustomJSFilter,
    CustomJSTickFormatter,
    HoverTool,
    InlineStyleSheet,
    Row,
)
from bokeh.models.widgets import CheckboxButtonGroup, MultiChoice, Select, Toggle
from bokeh.plotting import figure

from kampong.report.pictures import PALETTE

if TYPE_CHECKING:
    from kampong.report.snapshot import Snapshot

COLOURS, GREY = PALETTE[:9], "#B0B0B0"
"""So many classes have their own colour; the others are grey."""

STRIP = "strip"
LONGEST_LABEL = 24

# Each button shows the colour of its class at its left, pale when the class is hidden.
_BUTTONS = """
.bk-btn-group { flex-wrap: wrap; gap: 6px; }
.bk-btn-group > .bk-btn, .bk-btn { border: 1px solid #8a8a8a !important; border-radius: 4px !important; flex: 0 0 auto;
  background: white !important; color: #1a1a1a !important; padding: 4px 10px 4px 22px; font-size: 14px; opacity: 0.45; }
.bk-btn.bk-active { opacity: 1; }
"""
_SWATCHES = "".join(
    f".bk-btn-group > .bk-btn:nth-child({place + 1}) {{ box-shadow: inset 14px 0 0 {colour}; }}"
    for place, colour in enumerate(COLOURS)
)
_GREY_SWATCH = f".bk-btn {{ box-shadow: inset 14px 0 0 {GREY} !important; }}"

_CHOICE = """
.choices__list--multiple .choices__item { background: #eeeeee !important; border: 1px solid #8a8a8a !important;
  color: #1a1a1a !important; }
.choices__button { filter: invert(1); }
"""

# The grey points are drawn first, under the coloured ones.
_SHOWN = """
const on = new Set(buttons.active)
const places = new Map(choice.value.map((name, place) => [name, place]))
const labels = source.data.label
const shown = []
for (let i = 0; i < source.length; i++) {
  const place = places.get(labels[i])
  if (grey ? place === undefined && rest.active : place !== undefined && on.has(place)) shown.push(i)
}
return shown
"""
_REFRESH = "for (const filter of filters) filter.change.emit()"
_CHOSEN = """
const cut = (name) => name.length > longest ? name.slice(0, longest - 1) + "…" : name
buttons.labels = choice.value.map(cut)
buttons.active = choice.value.map((_, place) => place)
colours.factors = choice.value
"""
_AXIS = """
for (const glyph of glyphs) glyph[side] = {field: select.value}
axis.axis_label = select.value == strip ? "class" : "direction " + select.value.slice(1)
"""
# Two dollar signs would make the browser download a renderer of mathematics.
_TICK = """
if (select.value != strip) return String(Number(tick.toPrecision(6)))
const name = classes.data.name[tick]
if (name === undefined) return ""
return (name.length > 14 ? name.slice(0, 13) + "…" : name).replaceAll("$$", "$ $")
"""


class ClassPicture:
    """A scatter of the kept points and its controls; everything the reader does happens in the browser.

    Parameters
    ----------
    snapshot : Snapshot
        What to show first.
    classes : ColumnDataSource
        The table of the classes, the most frequent first.
    """

    def __init__(self, snapshot: Snapshot, classes: ColumnDataSource) -> None:
        self._offered: set[str] = set()
        self._n_directions = 0
        self._source = ColumnDataSource(data=snapshot.points, name="points")
        self._choice = MultiChoice(
            title=f"Classes in colour, {len(COLOURS)} at most",
            max_items=len(COLOURS),
            placeholder="type a name to search",
            sizing_mode="stretch_width",
            name="choice",
            stylesheets=[InlineStyleSheet(css=_CHOICE)],
        )
        self._buttons = CheckboxButtonGroup(
            name="toggles",
            sizing_mode="stretch_width",
            margin=(8, 5, 0, 5),
            stylesheets=[InlineStyleSheet(css=_BUTTONS + _SWATCHES)],
        )
        self._rest = Toggle(
            label="all other classes",
            active=True,
            name="rest",
            margin=(8, 5, 0, 5),
            stylesheets=[InlineStyleSheet(css=_BUTTONS + _GREY_SWATCH)],
        )
        self._x, self._y = (
            Select(title=title, name=name, width=160, margin=(6, 12, 0, 5))
            for title, name in (("across", "across"), ("up", "up"))
        )
        self._colours = CategoricalColorMapper(factors=[], palette=list(COLOURS), nan_color=GREY)
        controls = {"buttons": self._buttons, "choice": self._choice, "rest": self._rest}
        self.plot: Any = figure(
            height=430,
            sizing_mode="stretch_width",
            tools="pan,wheel_zoom,box_zoom,reset",
            active_drag=None,
            name="picture",
        )
        looks: list[dict[str, Any]] = [
            {"fill_color": GREY, "fill_alpha": 0.45, "size": 5},
            {"fill_color": {"field": "label", "transform": self._colours}, "fill_alpha": 0.8, "size": 6},
        ]
        filters = [CustomJSFilter(args=controls | {"grey": grey}, code=_SHOWN) for grey in (True, False)]
        drawn: list[Any] = [
            self.plot.scatter("d1", "d2", source=self._source, view=CDSView(filter=shown), line_color=None, **look)
            for shown, look in zip(filters, looks, strict=True)
        ]
        self._glyphs = [renderer.glyph for renderer in drawn]
        tips = [("class", "@label"), ("predicted", "@predicted"), ("row", "@row{0,0}")]
        self.plot.add_tools(HoverTool(renderers=drawn, tooltips=tips))
        self.plot.yaxis[0].formatter = CustomJSTickFormatter(
            args={"select": self._y, "classes": classes, "strip": STRIP}, code=_TICK
        )
        for side, select, axis in (("x", self._x, self.plot.xaxis[0]), ("y", self._y, self.plot.yaxis[0])):
            turned = {"glyphs": self._glyphs, "side": side, "select": select, "axis": axis, "strip": STRIP}
            select.js_on_change("value", CustomJS(args=turned, code=_AXIS))
        # Each callback has its own list: bokeh refuses a list that contains itself.
        chosen = controls | {"colours": self._colours, "filters": [*filters], "longest": LONGEST_LABEL}
        self._choice.js_on_change("value", CustomJS(args=chosen, code=_CHOSEN + _REFRESH))
        for control in (self._buttons, self._rest):
            control.js_on_change("active", CustomJS(args={"filters": [*filters]}, code=_REFRESH))
        axes = Row(children=[self._x, self._y], sizing_mode="stretch_width", styles={"flex-wrap": "wrap"})
        self._controls = Column(children=[self._choice, self._buttons, self._rest, axes], sizing_mode="stretch_width")
        self.update(snapshot)

    @property
    def parts(self) -> list[Any]:
        """The models, from top to bottom."""
        return [self._controls, self.plot]

    def update(self, snapshot: Snapshot) -> None:
        """Show another snapshot; what the reader chose stays."""
        empty = not len(snapshot.points["label"])
        for part in self.parts:
            part.visible = not empty
        names = list(snapshot.classes["name"])
        new = [name for name in names if name not in self._offered]
        if new:
            self._offered.update(new)
            self._choice.options = [(name, _inert(name)) for name in names]
            self._choice.visible = self._rest.visible = len(names) > len(COLOURS)
            self._colour([*self._choice.value, *new][: len(COLOURS)])
        self._offer_directions(snapshot.n_directions)
        self._source.data = snapshot.points

    def _colour(self, names: list[str]) -> None:
        """Give these classes their colours and show them, as the browser does when the reader chooses."""
        if names == self._choice.value:
            return
        self._choice.value = names
        self._buttons.labels = [
            name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…" for name in names
        ]
        self._buttons.active = list(range(len(names)))
        self._colours.factors = names

    def _offer_directions(self, n: int) -> None:
        if n == self._n_directions:
            return
        directions: list[Any] = [(f"d{place + 1}", f"direction {place + 1}") for place in range(n)]
        self._x.options, self._y.options = directions, [*directions, (STRIP, "one strip a class")]
        # A single direction is drawn as strips; the second one takes over when it comes.
        if self._n_directions < 2:
            self._x.value, self._y.value = "d1", "d2" if n >= 2 else STRIP
            for glyph in self._glyphs:
                glyph.x, glyph.y = self._x.value, self._y.value
            self.plot.xaxis[0].axis_label = "direction 1"
            self.plot.yaxis[0].axis_label = "direction 2" if n >= 2 else "class"
        self._n_directions = n


def _inert(name: str) -> str:
    """Return a name without characters that a widget might take for markup."""
    return name.translate({ord("<"): "‹", ord(">"): "›", ord("&"): "＆"})
