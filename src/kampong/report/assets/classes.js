// The key figures, which classes are confused, and the table of the classes.
const MATRIX = 30 // most classes that are shown as a matrix

function section(id, title, words, { wide = false } = {}) {
  const caption = h("p", null, words),
    body = h("div", null)
  const element = h(
    "section",
    { id: `s-${id}`, class: wide ? "wide" : null, "aria-labelledby": `h-${id}` },
    h("h2", { id: `h-${id}` }, title),
    caption,
    body,
  )
  return { element, caption, body }
}
function say(part, reason, words) {
  part.caption.textContent = reason || words
  part.caption.className = reason ? "empty" : ""
  part.body.hidden = Boolean(reason)
  return !reason
}

class Verdict {
  constructor() {
    this.element = h("ul", { id: "verdict", "aria-label": "Verdict" })
  }
  show({ verdict }) {
    this.element.hidden = !verdict.length
    this.element.replaceChildren(
      ...verdict.map(({ text, attention }) => h("li", attention ? { class: "attention" } : null, bdi(text))),
    )
  }
}

class Tiles {
  constructor() {
    this.list = h("dl", { class: "tiles" })
    this.words = h("p", { class: "note" })
    this.element = h("div", { id: "figures" }, this.list, this.words)
    new ResizeObserver(() => this.arrange()).observe(this.element)
  }
  // Lines of nearly as many tiles each, so that none stands alone while another line is full.
  arrange() {
    const count = this.list.children.length,
      fit = Math.max(2, Math.floor((this.element.clientWidth + 10) / 160))
    this.list.style.setProperty("--across", Math.ceil(count / Math.ceil(count / fit)))
  }
  show({ totals, measures, recent, chosen, unscored, baselines }) {
    const tile = (key, name, value, more) =>
      h(
        "div",
        { "data-key": key },
        h("dt", null, name),
        h("dd", { class: "value" }, value),
        more ? h("dd", { class: "more" }, more) : null,
      )
    const share = (key, name) => tile(key, name, percent(measures[key]), `recent ${percent(recent[key])}`)
    const merged = withoutCourse(totals)
    const accuracies = [
      share("accuracy", "Accuracy"),
      share("balanced_accuracy", "Balanced accuracy"),
      share("macro_f1", "Macro F1"),
      tile("last_label", "Repeating the last label", percent(baselines.last_label), `majority class ${percent(baselines.majority)}`),
      tile(
        "kappa_last_label",
        "Kappa over last label",
        figures(baselines.kappa_last_label, 3),
        `kappa ${figures(baselines.kappa, 3)}`,
      ),
    ]
    const speed = tile(
      "rows_per_second",
      "Rows per second",
      totals.rows_per_second === null ? "–" : whole(Math.round(totals.rows_per_second)),
      "mean of the run",
    )
    const tiles = [
      tile(
        "rows",
        "Rows",
        whole(totals.rows || totals.learnt),
        unscored ? `${whole(unscored)} not scored` : null,
      ),
      ...(merged ? [] : [speed]),
      tile(
        "classes",
        "Classes",
        whole(totals.classes),
        totals.directions ? `${whole(totals.directions)} direction${totals.directions === 1 ? "" : "s"}` : null,
      ),
    ]
    for (const { name, value, since } of chosen) {
      if (name === "half-life" && value === "none") continue
      const words = name === "half-life" ? rows(value) : figures(value)
      tiles.push(
        tile(
          `chosen ${name}`,
          name[0].toUpperCase() + name.slice(1),
          words.replaceAll("_", " "),
          since === null ? null : `since row ${whole(since + 1)}`,
        ),
      )
    }
    if (totals.dead) tiles.push(tile("dead", "Dead letters", whole(totals.dead)))
    this.list.replaceChildren(...(merged ? [] : accuracies), ...tiles)
    this.arrange()
    if (merged) {
      this.words.textContent =
        "This model was merged from parts or fitted at once, so the course of its stream is not known, and no accuracy " +
        "is shown. `kampong score` measures it on rows that it has not seen."
      return
    }
    this.words.textContent = recent.rows
      ? `Recent means the latest ${rows(recent.rows)} predicted, everywhere on this page` +
        (recent.rows < recent.most ? ` (half of them, ${whole(recent.most)} at the most).` : ".")
      : ""
  }
}

class Confusions {
  constructor(map) {
    this.map = map
    this.part = section("confusions", "Which classes are confused", "")
    this.element = this.part.element
    this.at = [0, 0]
    map.onFilter = () => this.mark()
    this.place = h("div", { class: "scroll" })
    this.part.body.append(this.place)
    this.place.addEventListener("keydown", (event) => this.key(event))
    this.place.addEventListener("click", (event) => {
      const cell = event.target.closest("[data-pair]")
      if (cell) this.pick(cell)
    })
  }
  show(data) {
    this.data = data
    this.element.hidden = withoutCourse(data.totals) // said once, above
    if (this.element.hidden) return
    const { name, scored, correct } = data.classes,
      { pairs, left_out } = data.confusions
    const matrix = name.length <= MATRIX && !left_out
    const words = matrix
      ? "Rows are true classes, columns are predictions; shading is the share of the true class. Choose a cell to see its points on the map."
      : `The most frequent of ${whole(pairs.length)} confusions${left_out ? `; ${rows(left_out)} of rarer ones are not listed` : ""}. Choose one to see its points on the map.`
    this.wide = matrix && name.length > 12
    this.element.classList.toggle("wide", this.wide)
    if (!say(this.part, nothing(data.totals) || (data.totals.scored ? "" : "Nothing was predicted yet."), words)) return
    if (!matrix && !pairs.length) return void say(this.part, "Every row was predicted correctly.", "")
    const held = this.place.contains(document.activeElement)
    this.place.setAttribute("role", "region")
    this.place.setAttribute("aria-label", "Confusions, scrollable")
    const [top, left] = [this.place.scrollTop, this.place.scrollLeft]
    this.place.replaceChildren(matrix ? this.matrix(name, scored, correct, pairs) : this.listed(name, scored, pairs))
    ;[this.place.scrollTop, this.place.scrollLeft] = [top, left]
    if (!matrix) fit(this.place, 13)
    else this.place.style.maxHeight = "none"
    this.mark()
    if (held) this.current()?.focus({ preventScroll: true })
  }
  matrix(name, scored, correct, pairs) {
    const counts = name.map((_, i) => name.map((_, j) => (i === j ? correct[i] : 0)))
    for (const [true_, said, count] of pairs) counts[true_][said] += count
    const upright = name.every((text) => [...text].length <= 4)
    const label = (text) => h("span", { class: upright ? null : "text" }, bdi(cut(text, 16)))
    const cell = (i, j) => {
      const count = counts[i][j],
        share = scored[i] ? count / scored[i] : 0
      return h(
        "td",
        {
          class: i === j ? "right" : null,
          role: "gridcell",
          tabindex: "-1",
          "data-pair": `${i} ${j}`,
          "data-count": count,
          style: `background:color-mix(in srgb, var(--tint) ${Math.round(38 * Math.sqrt(share))}%, var(--bg))`,
          "aria-label": `${name[i]} predicted as ${name[j]}: ${rows(count)}`,
        },
        h("span", null, count ? whole(count) : "·"),
      )
    }
    return h(
      "table",
      { class: "matrix", role: "grid", "aria-label": "Confusion matrix" },
      h(
        "thead",
        null,
        h(
          "tr",
          { role: "row" },
          h("th", { class: "name", role: "columnheader" }, "true \\ predicted"),
          name.map((text) => h("th", { role: "columnheader", title: text }, label(text))),
        ),
      ),
      h(
        "tbody",
        null,
        name.map((text, i) =>
          h(
            "tr",
            { role: "row" },
            h("th", { class: "name", role: "rowheader", title: text }, bdi(text)),
            name.map((_, j) => cell(i, j)),
          ),
        ),
      ),
    )
  }
  listed(name, scored, pairs) {
    return h(
      "table",
      { role: "grid", "aria-label": "Most frequent confusions" },
      h(
        "thead",
        null,
        h(
          "tr",
          { role: "row" },
          ["true class", "predicted as", "rows", "of its class"].map((text, k) =>
            h("th", { class: k < 2 ? "name" : null, role: "columnheader" }, text),
          ),
        ),
      ),
      h(
        "tbody",
        null,
        pairs.slice(0, 60).map(([i, j, count]) =>
          h(
            "tr",
            { role: "row" },
            h(
              "td",
              {
                class: "name",
                role: "gridcell",
                tabindex: "-1",
                "data-pair": `${i} ${j}`,
                "data-count": count,
                title: name[i],
              },
              bdi(name[i]),
            ),
            h("td", { class: "name", role: "gridcell", title: name[j] }, bdi(name[j])),
            h("td", { role: "gridcell" }, whole(count)),
            h("td", { role: "gridcell" }, percent(scored[i] ? count / scored[i] : null)),
          ),
        ),
      ),
    )
  }
  lines() {
    return [...this.place.querySelectorAll("tbody tr")].map((line) => [...line.querySelectorAll("[data-pair]")])
  }
  current() {
    const lines = this.lines()
    return lines[Math.min(this.at[0], lines.length - 1)]?.[Math.min(this.at[1], lines[0].length - 1)]
  }
  key(event) {
    const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }
    if (event.key in moves) {
      const lines = this.lines()
      this.at = [0, 1].map((k) =>
        Math.max(0, Math.min((k ? lines[0].length : lines.length) - 1, this.at[k] + moves[event.key][k])),
      )
      this.mark()
      this.current()?.focus()
    } else if (event.key === "Enter" || event.key === " ") this.pick(this.current())
    else return
    event.preventDefault()
  }
  pick(cell) {
    const lines = this.lines(),
      row = lines.findIndex((line) => line.includes(cell))
    this.at = [row, lines[row].indexOf(cell)]
    const pair = cell.dataset.pair.split(" ").map(Number),
      same = String(this.map.pair) === String(pair)
    this.map.filter(same ? null : pair)
  }
  mark() {
    for (const cell of this.place.querySelectorAll("[data-pair]")) {
      cell.setAttribute("aria-selected", String(cell.dataset.pair === this.map.pair?.join(" ")))
      cell.setAttribute("tabindex", "-1")
    }
    this.current()?.setAttribute("tabindex", "0")
  }
}

class ClassTable {
  constructor() {
    this.part = section("classes", "Classes", "")
    this.element = this.part.element
    this.columns = [
      ["name", "class", (value) => bdi(value)],
      ["rows", "rows", whole],
      ["precision", "precision", percent],
      ["recall", "recall", percent],
      ["recent_recall", "recent recall", percent],
      ["moved", "moved", (value) => (value === null ? "–" : value.toFixed(1))],
    ]
    this.sort = { key: "rows", down: true }
    this.place = h("div", {
      class: "scroll",
      tabindex: "0",
      role: "region",
      "aria-label": "Table of the classes, scrollable",
    })
    this.body = h("tbody", null)
    this.heads = this.columns.map(([key, words]) =>
      h(
        "th",
        { class: key === "name" ? "name" : null, scope: "col" },
        h("button", { type: "button", "data-key": key, on: { click: () => this.by(key) } }, words),
      ),
    )
    this.place.append(h("table", { class: "sortable" }, h("thead", null, h("tr", null, this.heads)), this.body))
    this.part.body.append(this.place)
  }
  by(key) {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : key !== "name" }
    this.show(this.data)
  }
  show(data) {
    this.data = data
    const n = data.classes.name.length,
      merged = withoutCourse(data.totals)
    this.element.classList.toggle("wide", !merged && n > 12 && n <= MATRIX && !data.confusions.left_out) // as the matrix
    const counted = `The rows of ${n === 1 ? "one class" : `${whole(n)} classes`} that the model has learnt, or their weight where rows have weights or age. Choose a heading to sort.`
    const known = this.columns.map(([key]) => !merged || key === "name" || key === "rows")
    if (
      !say(
        this.part,
        merged ? (n ? "" : "Not known: the model does not count its classes.") : nothing(data.totals),
        merged
          ? counted
          : "Precision is the share of predictions of a class that were correct, recall the share of its rows that were predicted correctly. " +
              "Moved is how far its latest points lie from its mean over the stream, in standard deviations of a class, less what chance explains. Choose a heading to sort.",
      )
    )
      return
    const { key, down } = this.sort,
      values = data.classes[key]
    const order = [...Array(n).keys()].sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b
      const less = key === "name" ? values[a].localeCompare(values[b], "en", { numeric: true }) : values[a] - values[b]
      return (down ? -less : less) || a - b
    })
    this.heads.forEach((head, place) => {
      const mine = this.columns[place][0] === key
      head.hidden = !known[place]
      head.setAttribute("aria-sort", mine ? (down ? "descending" : "ascending") : "none")
      head.firstChild.textContent = this.columns[place][1] + (mine ? (down ? " ▾" : " ▴") : "")
    })
    this.body.replaceChildren(
      ...order.map((place) =>
        h(
          "tr",
          null,
          this.columns.filter((_, column) => known[column]).map(([name, , spell]) =>
            name === "name"
              ? h(
                  "th",
                  { class: "name", scope: "row", title: data.classes.name[place] },
                  spell(data.classes.name[place]),
                )
              : h("td", { "data-key": name }, spell(data.classes[name][place])),
          ),
        ),
      ),
    )
    fit(this.place, 13)
  }
}
