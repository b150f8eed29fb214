// What all parts of the page use: elements, numbers in words, scales, curves over the rows, tables behind figures.
const SVG = "http://www.w3.org/2000/svg"

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act)
    else if (value === true) element.setAttribute(name, "")
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value)
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined))
  return element
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children)
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children)

// A name may be of either writing direction, and of any length.
const bdi = (text) => h("bdi", null, text)
const cut = (text, most) => ([...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text)
const whole = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en-GB"))
const percent = (share, digits = 1) =>
  share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)}%`
// A part of a whole, which is not written as nothing if it is small.
const part = (share) => (share > 0 && share < 5e-4 ? "< 0.1%" : percent(share))
// Why there is nothing to show; models that were merged, or fitted at once, have no course.
const nothing = ({ rows, learnt }) =>
  rows
    ? ""
    : learnt
      ? "Not known: this model was merged from parts or fitted at once, so the course of its stream is not kept."
      : "No labelled rows yet."
const withoutCourse = ({ rows, learnt }) => !rows && learnt > 0
const rows = (count) => `${whole(count)} row${count === 1 ? "" : "s"}`
function figures(number, digits = 4) {
  if (number === null || number === undefined) return "–"
  if (typeof number === "string") return number
  const size = Math.abs(number)
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return number.toExponential(2)
  return Number(number.toPrecision(digits)).toLocaleString("en-GB", { maximumFractionDigits: 8 })
}

function ticks(low, high, most) {
  const rough = (high - low || 1) / most
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999)
  const found = []
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step)
  return { values: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) }
}
function short(number) {
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(number) >= size) return `${Number((number / size).toPrecision(3))}${unit}`
  }
  return `${Number(number.toPrecision(6))}`
}
function bounds(values) {
  let low = Infinity,
    high = -Infinity
  for (const value of values) {
    if (value === null || value === undefined) continue
    if (value < low) low = value
    if (value > high) high = value
  }
  return [low, high]
}

// A frame with axes; returns the scales and the group to draw in.
function frame(svg, { width, height, x, y, xText, yText, xLabel, yLabel }) {
  const left = (yLabel ? 34 : 16) + (yLabel ? 7.4 : 9) * Math.max(2, ...yText.map(([, text]) => [...text].length))
  const box = { left, right: width - 12, top: 12, bottom: height - 44 }
  const fx = (value) => box.left + ((value - x[0]) / (x[1] - x[0] || 1)) * (box.right - box.left)
  const fy = (value) => box.bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (box.bottom - box.top)
  svg.replaceChildren()
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`)
  svg.setAttribute("height", height)
  for (const [value, text] of yText) {
    svg.append(s("line", { class: "grid", x1: box.left, x2: box.right, y1: fy(value), y2: fy(value) }))
    svg.append(s("text", { x: box.left - 7, y: fy(value) + 4, "text-anchor": "end" }, text))
  }
  for (const [value, text] of xText) {
    svg.append(s("line", { class: "axis", x1: fx(value), x2: fx(value), y1: box.bottom, y2: box.bottom + 5 }))
    svg.append(s("text", { x: fx(value), y: box.bottom + 20, "text-anchor": "middle" }, text))
  }
  svg.append(s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }))
  svg.append(s("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }))
  svg.append(s("text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel))
  const inner = s("svg", {
    x: box.left,
    y: box.top,
    width: box.right - box.left,
    height: box.bottom - box.top,
    viewBox: `${box.left} ${box.top} ${box.right - box.left} ${box.bottom - box.top}`,
    preserveAspectRatio: "none",
  })
  svg.append(inner)
  const up = `translate(14 ${(box.top + box.bottom) / 2}) rotate(-90)`
  svg.append(s("text", { transform: up, "text-anchor": "middle" }, yLabel))
  return { box, fx, fy, inner }
}

// The table behind a figure.
function behind(words, fillTable) {
  const place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": words })
  const details = h("details", { class: "behind" }, h("summary", null, words), place)
  return { details, show: (head, body) => place.replaceChildren(plainTable(head, body, words, true)) }
}
function plainTable(head, body, caption, spoken = false) {
  const cell = (tag, value, place) =>
    h(
      tag,
      { class: place > 0 ? null : head[0] === "class" ? "name" : "left", scope: tag === "th" ? "col" : null },
      typeof value === "string" ? bdi(value) : value,
    )
  return h(
    "table",
    { "aria-label": spoken ? caption : null },
    spoken ? null : h("caption", null, caption),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        head.map((text, place) => cell("th", text, place)),
      ),
    ),
    h(
      "tbody",
      null,
      body.map((line) =>
        h(
          "tr",
          null,
          line.map((value, place) => cell("td", value, place)),
        ),
      ),
    ),
  )
}
// A scrollable table ends with a whole row.
function fit(place, most) {
  place.style.maxHeight = ""
  const lines = place.querySelectorAll("tbody tr")
  if (lines.length <= most) return
  const top = place.querySelector("table").getBoundingClientRect().top
  if (lines[most - 1].getBoundingClientRect().height)
    place.style.maxHeight = `${Math.round(lines[most - 1].getBoundingClientRect().bottom - top) + 2}px`
}
// What scrolls fades at the edge behind which there is more, and says so where columns are cut off.
const cued = new ResizeObserver((entries) => entries.forEach(({ target }) => cue(target)))
function cue(place) {
  const right = place.scrollWidth - place.clientWidth - place.scrollLeft > 2,
    down = place.scrollHeight - place.clientHeight - place.scrollTop > 2
  place.classList.toggle("more-right", right)
  place.classList.toggle("more-down", down)
  const hint = place.nextElementSibling
  if (hint?.classList.contains("hint")) hint.hidden = place.scrollWidth - place.clientWidth <= 2
}
function cueScrolling() {
  for (const place of document.querySelectorAll(".scroll, .list")) {
    if (!place.dataset.cued) {
      place.dataset.cued = "yes"
      place.addEventListener("scroll", () => cue(place), { passive: true })
      cued.observe(place)
      if (place.classList.contains("scroll"))
        place.after(h("p", { class: "hint", hidden: true, "aria-hidden": "true" }, "More columns: scroll sideways →"))
    }
    cue(place)
  }
}
function thin(count, most) {
  if (count <= most) return [...Array(count).keys()]
  return [...Array(most).keys()].map((k) => Math.round((k * (count - 1)) / (most - 1)))
}

// Curves: one or two series over x, with marks; hover or arrow keys read them.
class LineChart {
  constructor(name, { xLabel, yLabel, share = false, log = false }) {
    Object.assign(this, { name, xLabel, yLabel, share, log })
    this.svg = s("svg", { role: "img", "aria-label": name })
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" })
    this.plot = h("div", { class: "plot" }, this.svg, this.tip)
    this.key = h("div", { class: "key" })
    this.table = behind(`${name} as a table`)
    this.element = h("div", null, this.key, this.plot, this.table.details)
    this.plot.addEventListener("pointermove", (event) => this.read(event))
    this.plot.addEventListener("pointerleave", () => (this.tip.hidden = true))
    new ResizeObserver(() => this.given && this.draw()).observe(this.plot)
  }
  show(x, series, marks = [], point = null) {
    this.given = { x, series, marks, point }
    this.key.replaceChildren(
      ...(series.length > 1
        ? series.map((one) =>
            h(
              "span",
              null,
              s(
                "svg",
                { viewBox: "0 0 30 10", "aria-hidden": "true" },
                s("line", { class: `line ${one.style}`, x1: 0, x2: 30, y1: 5, y2: 5 }),
              ),
              one.name,
            ),
          )
        : []),
    )
    const text = (value) => (this.share ? percent(value, 2) : figures(value))
    const chosen = thin(x.length, 60)
    this.table.show(
      [this.xLabel, ...series.map((one) => one.name)],
      chosen.map((place) => [
        this.log ? figures(x[place]) : whole(x[place]),
        ...series.map((one) => text(one.values[place])),
      ]),
    )
    const last = series.map((one) => `${one.name} ${text(one.values.at(-1))}`).join(", ")
    this.svg.setAttribute(
      "aria-label",
      `${this.name}: ${x.length} points; at the end ${last}. The table below has the numbers.`,
    )
    this.draw()
  }
  draw() {
    const { x, series, marks, point } = this.given
    const width = Math.max(260, this.plot.clientWidth),
      height = 270
    if (!this.plot.clientWidth) return
    const at = this.log ? (value) => Math.log10(value) : (value) => value
    let [low, high] = bounds(series.flatMap((one) => one.values))
    if (low === Infinity) [low, high] = [0, 1]
    const pad = (high - low) * 0.06 || (this.share ? 0.02 : Math.abs(high) * 0.1 || 1)
    ;[low, high] = [low - pad, high + pad]
    if (this.share) [low, high] = [Math.max(0, low), Math.min(1, high)]
    const scale = this.share ? 100 : 1
    const marked = ticks(low * scale, high * scale, 5)
    const yText = marked.values.map((value) => [
      value / scale,
      this.share
        ? `${value.toFixed(marked.digits)}%`
        : Math.abs(value) >= 1000
          ? short(value)
          : Number(value.toPrecision(6)).toString(),
    ])
    const range = x.length ? [at(x[0]), at(x.at(-1))] : [0, 1]
    if (range[0] === range[1]) range[1] += 1
    const most = Math.max(4, Math.floor(width / 110))
    const cross = ticks(range[0], range[1], this.log ? most : Math.min(most, range[1] - range[0])) // rows are whole
    const xText = cross.values
      .filter((value) => !this.log || Number.isInteger(Number(value.toFixed(6))))
      .map((value) => [value, this.log ? `1e${Math.round(value)}` : short(value)])
    if (!xText.length) xText.push(...range.map((value) => [value, figures(10 ** value, 2)]))
    const { box, fx, fy } = (this.scales = frame(this.svg, {
      width,
      height,
      x: range,
      y: [low, high],
      xText,
      yText,
      xLabel: this.xLabel,
      yLabel: this.yLabel,
    }))
    for (const mark of marks) {
      const place = Math.min(Math.max(fx(at(mark.x)), box.left), box.right)
      svgMark(this.svg, mark, place, box)
    }
    for (const one of series) {
      let path = "",
        open = false
      x.forEach((value, place) => {
        const y = one.values[place]
        if (y === null) return (open = false)
        path += `${open ? "L" : "M"}${fx(at(value)).toFixed(1)} ${fy(y).toFixed(1)}`
        open = true
      })
      this.svg.append(s("path", { class: `line ${one.style}`, d: path }))
      if (x.length === 1 && one.values[0] !== null)
        this.svg.append(s("circle", { class: "dot", r: 4, cx: fx(at(x[0])), cy: fy(one.values[0]) }))
    }
    if (point) this.svg.append(s("circle", { class: "dot", r: 6, cx: fx(at(point[0])), cy: fy(point[1]) }))
  }
  read(event) {
    const { x, series } = this.given ?? { x: [] }
    if (!x.length || !this.scales) return
    const at = this.log ? Math.log10 : (value) => value
    const place = event.clientX - this.plot.getBoundingClientRect().left
    let best = 0
    x.forEach((value, k) => {
      if (Math.abs(this.scales.fx(at(value)) - place) < Math.abs(this.scales.fx(at(x[best])) - place)) best = k
    })
    const text = (value) => (this.share ? percent(value, 2) : figures(value))
    this.tip.replaceChildren(
      h("div", null, `${this.xLabel}: ${this.log ? figures(x[best]) : whole(x[best])}`),
      ...series.map((one) => h("div", null, `${one.name}: ${text(one.values[best])}`)),
    )
    placeTip(this.tip, this.plot, this.scales.fx(at(x[best])), 20)
  }
}
function svgMark(svg, mark, place, box) {
  const style = mark.rise ? "rise" : "alarm"
  svg.append(
    s("line", { class: style, x1: place, x2: place, y1: box.top, y2: box.bottom }, s("title", null, mark.text)),
  )
  const tip = mark.rise ? `M${place - 5} ${box.top + 8}h10l-5 -9z` : `M${place - 5} ${box.top}h10l-5 9z`
  svg.append(s("path", { class: `${style}-mark`, d: tip }, s("title", null, mark.text)))
}
function placeTip(tip, plot, x, y) {
  tip.hidden = false
  const room = plot.clientWidth - tip.offsetWidth
  tip.style.left = `${Math.max(0, Math.min(room, x + 12 > room ? x - tip.offsetWidth - 12 : x + 12))}px`
  tip.style.top = `${Math.max(0, y)}px`
}
