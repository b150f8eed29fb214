// The map of the classes in two directions, and the one list of classes: search, toggle, errors only, axes, zoom.
const NAMED = 20 // most classes that get an ellipse
const FEWEST_MEANS = 5 // classes on the map from which on one may lie far out

// A picture from its levels, one hexadecimal digit per point, in a colour of the page.
function thumbnail(levels, name) {
  const side = Math.sqrt(levels.length),
    canvas = h("canvas", { width: side, height: side }),
    paint = canvas.getContext("2d")
  paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name)
  ;[...levels].forEach((level, k) => {
    paint.globalAlpha = parseInt(level, 16) / 15
    paint.fillRect(k % side, Math.floor(k / side), 1, 1)
  })
  return canvas.toDataURL()
}

class ClassMap {
  constructor() {
    Object.assign(this, {
      slots: new Map(),
      off: new Set(),
      query: "",
      errors: false,
      pair: null,
      x: 0,
      y: 1,
      zoom: "most",
      box: null,
      at: 0,
      reading: -1,
    })
    this.svg = s("svg", { role: "img" })
    this.tip = h("div", { class: "tip", hidden: true, role: "status" })
    this.plot = h(
      "div",
      {
        class: "plot",
        id: "map",
        tabindex: "0",
        role: "group",
        "aria-label":
          "The map. Arrow keys move it, plus and minus zoom, 0 shows all; n and p read the next and previous point.",
      },
      this.svg,
      this.tip,
    )
    this.count = h("p", { class: "note", role: "status" })
    this.across = h("select", { id: "across", on: { change: () => this.turn() } })
    this.up = h("select", { id: "up", on: { change: () => this.turn() } })
    const press = (words, act) => h("button", { type: "button", "aria-pressed": "false", on: { click: act } }, words)
    this.wrong = press("Errors only", () => {
      this.errors = !this.errors
      this.draw()
    })
    this.most = press("Most points", () => this.look("most"))
    this.every = press("All points", () => this.look("all"))
    this.pill = h("button", { type: "button", class: "pill", hidden: true, on: { click: () => this.filter(null) } })
    const step = (words, sign, factor) =>
      h("button", { type: "button", "aria-label": words, on: { click: () => this.scale(factor) } }, sign)
    const bar = h(
      "div",
      { class: "bar" },
      h("label", null, "across", this.across),
      h("label", null, "up", this.up),
      this.wrong,
      this.most,
      this.every,
      step("Zoom in", "+", 0.7),
      step("Zoom out", "−", 1 / 0.7),
      this.pill,
    )
    this.search = h("input", {
      type: "search",
      placeholder: "Search a class",
      "aria-label": "Search a class",
      on: {
        input: () => {
          this.query = this.search.value
          this.at = 0
          this.drawList()
        },
      },
    })
    this.list = h("ul", {
      class: "list",
      id: "classes-shown",
      role: "listbox",
      tabindex: "0",
      "aria-multiselectable": "true",
      "aria-label": "Classes on the map. Space shows or hides one, Enter shows it alone.",
    })
    const all = h(
      "button",
      {
        type: "button",
        on: {
          click: () => {
            this.off.clear()
            this.draw()
          },
        },
      },
      "Show all",
    )
    const none = h(
      "button",
      {
        type: "button",
        on: {
          click: () => {
            this.off = new Set(this.data.classes.name)
            this.draw()
          },
        },
      },
      "Hide all",
    )
    this.table = behind("The classes on the map as a table")
    this.errorTable = behind("Rows on the map that were predicted wrongly")
    const side = h(
      "div",
      { class: "side" },
      h("h3", null, "Classes"),
      h("div", { class: "bar" }, this.search, all, none),
      this.list,
    )
    this.body = h(
      "div",
      null,
      bar,
      h("div", { class: "map" }, h("div", null, this.plot, this.count), side),
      this.table.details,
      this.errorTable.details,
    )
    this.empty = h("p", { class: "empty" })
    this.element = h(
      "section",
      { class: "wide", id: "s-map", "aria-labelledby": "h-map" },
      h("h2", { id: "h-map" }, "Map of the classes"),
      this.empty,
      this.body,
    )
    this.listen()
  }
  listen() {
    new ResizeObserver(() => this.data && this.drawMap()).observe(this.plot)
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("li")
      if (!item) return
      this.at = [...this.list.children].indexOf(item)
      this.toggle(item.dataset.name, event.detail > 1)
    })
    this.list.addEventListener("keydown", (event) => {
      const items = this.list.children,
        moves = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9, PageDown: 8, PageUp: -8 }
      if (event.key in moves) this.at = Math.max(0, Math.min(items.length - 1, this.at + moves[event.key]))
      else if ((event.key === " " || event.key === "Enter") && items[this.at])
        this.toggle(items[this.at].dataset.name, event.key === "Enter")
      else return
      event.preventDefault()
      this.mark()
    })
    this.plot.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] }
      if (event.key in moves) this.move(...moves[event.key])
      else if (event.key === "+" || event.key === "=") this.scale(0.7)
      else if (event.key === "-") this.scale(1 / 0.7)
      else if (event.key === "0") this.look("all")
      else if (event.key === "n" || event.key === "p") this.step(event.key === "n" ? 1 : -1)
      else if (event.key === "Escape") this.tip.hidden = true
      else return
      event.preventDefault()
    })
    let from = null
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") from = [event.clientX, event.clientY]
    })
    addEventListener("pointerup", () => (from = null))
    this.plot.addEventListener("pointermove", (event) => {
      if (from && this.scales) {
        const { box } = this.scales
        this.move(
          -(event.clientX - from[0]) / (box.right - box.left),
          (event.clientY - from[1]) / (box.bottom - box.top),
        )
        from = [event.clientX, event.clientY]
      } else this.hover(event)
    })
    this.plot.addEventListener("pointerleave", () => this.point(-1))
    this.plot.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.plot) return // the page scrolls
        event.preventDefault()
        this.scale(event.deltaY < 0 ? 0.85 : 1 / 0.85)
      },
      { passive: false },
    )
    this.plot.addEventListener("dblclick", () => this.scale(0.5))
  }
  // What the reader does.
  toggle(name, alone) {
    if (alone) this.off = new Set(this.data.classes.name.filter((other) => other !== name))
    else if (!this.off.delete(name)) this.off.add(name)
    this.draw()
  }
  filter(pair) {
    this.pair = pair
    this.draw()
    this.onFilter?.(pair)
  }
  turn() {
    this.x = Number(this.across.value)
    this.y = Number(this.up.value)
    this.box = null
    if (this.zoom === "own") this.zoom = "most"
    this.draw()
  }
  look(zoom) {
    this.zoom = zoom
    this.box = null
    this.drawMap()
  }
  scale(factor) {
    if (!this.box) return
    const wider = ([low, high]) => [
      (low + high) / 2 - (factor * (high - low)) / 2,
      (low + high) / 2 + (factor * (high - low)) / 2,
    ]
    this.box = { x: wider(this.box.x), y: wider(this.box.y) }
    this.zoom = "own"
    this.drawMap()
  }
  move(dx, dy) {
    if (!this.box) return
    const by = ([low, high], share) => [low + share * (high - low), high + share * (high - low)]
    this.box = { x: by(this.box.x, dx), y: by(this.box.y, dy) }
    this.zoom = "own"
    this.drawMap()
  }
  // What is shown.
  show(data) {
    this.data = data
    for (const name of data.classes.name) if (!this.slots.has(name)) this.slots.set(name, this.slots.size)
    const n = data.points.coordinates.length
    const reason = nothing(data.totals) || (!n ? "No directions yet: they need rows of two classes." : "")
    this.empty.textContent =
      reason ||
      "A sample of the latest rows, each where it lay when its batch was learnt. " +
        (n > 1 ? "A name stands at the mean of its points" : "Each class is a strip") +
        (n > 1 && data.classes.name.length <= NAMED ? "; an ellipse holds 86% of a Gaussian class" : "") +
        ". A point with an edge was predicted wrongly."
    this.empty.className = reason ? "empty" : ""
    this.body.hidden = Boolean(reason)
    if (reason) return
    if (this.across.length !== n || this.up.length !== n + 1) {
      const option = (value, words) => h("option", { value }, words)
      const names = [...Array(n).keys()].map((k) => [k, `direction ${k + 1}`])
      this.across.replaceChildren(...names.map((pair) => option(...pair)))
      this.up.replaceChildren(...names.map((pair) => option(...pair)), option(-1, "one strip per class"))
      if (this.y >= n || (this.y === -1 && !this.strips)) this.y = n > 1 ? 1 : -1
      if (this.y === -1 && n > 1 && !this.strips) this.y = 1
      this.x = Math.min(this.x, n - 1)
    }
    this.across.value = this.x
    this.up.value = this.y
    this.strips = this.y === -1 && n > 1
    this.draw()
  }
  draw() {
    this.drawList()
    this.drawMap()
  }
  drawList() {
    const { name, rows: counts } = this.data.classes,
      query = this.query.trim().toLowerCase()
    const shown = name.map((_, place) => place).filter((place) => !query || name[place].toLowerCase().includes(query))
    const top = this.list.scrollTop
    this.list.replaceChildren(
      ...shown.map((place, k) =>
        h(
          "li",
          {
            role: "option",
            id: `class-${k}`,
            "aria-selected": String(!this.off.has(name[place])),
            "data-name": name[place],
            title: name[place],
          },
          swatch(this.slots.get(name[place])),
          h("span", { class: "text" }, bdi(name[place])),
          h("span", { class: "count" }, whole(counts[place])),
        ),
      ),
    )
    if (!shown.length)
      this.list.replaceChildren(
        h("li", { role: "option", "aria-selected": "false", "aria-disabled": "true" }, "no class of this name"),
      )
    this.list.scrollTop = top
    this.mark(false)
  }
  mark(follow = true) {
    this.at = Math.max(0, Math.min(this.at, this.list.children.length - 1))
    ;[...this.list.children].forEach((item, k) => item.classList.toggle("at", k === this.at))
    this.list.setAttribute("aria-activedescendant", `class-${this.at}`)
    if (follow) this.list.children[this.at]?.scrollIntoView({ block: "nearest" })
  }
  chosen() {
    const { points, classes } = this.data,
      hidden = classes.name.map((name) => this.off.has(name))
    const X = points.coordinates[this.x],
      Y =
        this.y === -1
          ? points.label.map((k, i) => k + 0.7 * (((points.row[i] * 0.6180339887498949) % 1) - 0.5))
          : points.coordinates[this.y]
    const found = []
    for (let i = 0; i < X.length; i++) {
      const label = points.label[i],
        said = points.predicted[i]
      if (X[i] === null || Y[i] === null || label < 0) continue
      if (this.pair ? label !== this.pair[0] || said !== this.pair[1] : hidden[label]) continue
      const wrong = said >= 0 && said !== label
      if (this.errors && !wrong) continue
      found.push({ i, x: X[i], y: Y[i], label, wrong })
    }
    return found
  }
  // Classes that lie far out, by Tukey's outer fences of the means; they would squeeze the others into a corner.
  farOut(found) {
    const groups = new Map(),
      far = new Set()
    for (const one of found) groups.set(one.label, [...(groups.get(one.label) ?? []), one])
    if (groups.size < FEWEST_MEANS || this.pair) return far
    for (const side of this.y === -1 ? ["x"] : ["x", "y"]) {
      const means = [...groups].map(([label, some]) => [label, some.reduce((sum, one) => sum + one[side], 0) / some.length])
      const sorted = means.map(([, mean]) => mean).sort((a, b) => a - b),
        [low, high] = [quantile(sorted, 0.25), quantile(sorted, 0.75)]
      for (const [label, mean] of means)
        if (mean < low - 3 * (high - low) || mean > high + 3 * (high - low)) far.add(label)
    }
    return far
  }
  range(every, side) {
    if (side === "y" && this.y === -1) return [-0.7, this.data.classes.name.length - 0.3]
    const found = this.zoom === "all" ? every : every.filter((one) => !this.far.has(one.label))
    const values = found.map((one) => one[side]).sort((a, b) => a - b)
    if (!values.length) return [-1, 1]
    let [low, high] =
      this.zoom === "all" ? [values[0], values.at(-1)] : [quantile(values, 0.005), quantile(values, 0.995)]
    const pad = 0.06 * (high - low) || Math.abs(low) * 0.1 || 1
    return [low - pad, high + pad]
  }
  drawMap() {
    const width = this.plot.clientWidth
    if (!width || this.body.hidden) return
    const { classes } = this.data,
      found = this.chosen()
    this.found = found
    this.far = this.farOut(found)
    if (this.zoom !== "own" || !this.box) this.box = { x: this.range(found, "x"), y: this.range(found, "y") }
    const { x, y } = this.box,
      height = Math.round(Math.max(320, Math.min(560, width * 0.62)))
    const mark = (range, most) => {
      const { values, digits } = ticks(...range, most)
      return values.map((value) => [value, Math.abs(value) >= 1e4 ? short(value) : value.toFixed(Math.min(6, digits))])
    }
    const strips = this.y === -1
    const yText = strips
      ? classes.name
          .map((name, place) => [place, cut(name, 9)])
          .filter(([place]) => place > y[0] && place < y[1])
          .filter((_, k, all) => k % Math.ceil(all.length / 24) === 0)
      : mark(y, 6)
    const { box, fx, fy, inner } = (this.scales = frame(this.svg, {
      width,
      height,
      x,
      y,
      xText: mark(x, Math.max(4, Math.floor(width / 110))),
      yText,
      xLabel: `direction ${this.x + 1}`,
      yLabel: strips ? "" : `direction ${this.y + 1}`,
    }))
    const inside = found.filter((one) => one.x >= x[0] && one.x <= x[1] && one.y >= y[0] && one.y <= y[1])
    this.inside = inside
    const groups = new Map()
    for (const one of inside) groups.set(one.label, [...(groups.get(one.label) ?? []), one])
    // Marks grow smaller where many lie on little ground, so that colours and edges stay apart.
    const r = Math.max(2, Math.min(3.6, Math.sqrt((0.04 * width * height) / Math.max(inside.length, 1))))
    for (const [label, members] of groups) {
      const slot = this.slots.get(classes.name[label]),
        colour = `fill:var(--c${slot % 10})`
      for (const wrong of [false, true]) {
        const some = members.filter((one) => one.wrong === wrong)
        const path = some.map((one) => marker(Math.floor(slot / 10), fx(one.x), fy(one.y), r)).join("")
        if (path)
          inner.append(
            s("path", {
              d: path,
              class: (wrong ? "mark wrong" : "mark") + (r < 3.3 ? " small" : ""),
              style: colour,
              "data-shape": Math.floor(slot / 10) % SHAPES,
            }),
          )
      }
    }
    if (this.data.points.pictures.length) this.drawPictures(inside)
    if (!strips) this.drawNames(groups, this.scales)
    this.ring = s("circle", { class: "ring", r: 7, visibility: "hidden" })
    this.svg.append(this.ring)
    this.say(found, inside, groups)
  }
  // Pictures of rows at their points, as many as find room; those predicted wrongly come first, with an edge.
  drawPictures(inside) {
    const { fx, fy, inner } = this.scales,
      { points, classes } = this.data,
      side = 20,
      taken = []
    for (const one of [...inside].sort((a, b) => b.wrong - a.wrong)) {
      const x = fx(one.x),
        y = fy(one.y)
      if (taken.some(([u, v]) => Math.abs(u - x) < side && Math.abs(v - y) < side)) continue
      taken.push([x, y])
      const place = { x: x - side / 2, y: y - side / 2, width: side, height: side }
      inner.append(s("rect", { class: one.wrong ? "plate wrong" : "plate", ...place }))
      const slot = this.slots.get(classes.name[one.label])
      inner.append(s("image", { class: "picture", href: thumbnail(points.pictures[one.i], `--c${slot % 10}`), ...place }))
    }
  }
  drawNames(groups, { box, fx, fy, inner }) {
    const { classes } = this.data,
      taken = [],
      few = groups.size <= NAMED,
      apart = groups.size > 30 ? 24 : 16
    const labels = s("g", null)
    for (const [label, members] of [...groups].sort((a, b) => b[1].length - a[1].length)) {
      const n = members.length,
        mean = [0, 0],
        cov = [0, 0, 0]
      for (const one of members) {
        mean[0] += fx(one.x) / n
        mean[1] += fy(one.y) / n
      }
      for (const one of members) {
        const a = fx(one.x) - mean[0],
          b = fy(one.y) - mean[1]
        cov[0] += (a * a) / n
        cov[1] += (a * b) / n
        cov[2] += (b * b) / n
      }
      const slot = this.slots.get(classes.name[label])
      if (few && n >= 5) {
        // The ellipse of two standard deviations, by the Cholesky factor of the covariance.
        const a = Math.sqrt(cov[0]) || 1e-9,
          b = cov[1] / a,
          c = Math.sqrt(Math.max(0, cov[2] - b * b))
        const at = [...Array(40).keys()].map((k) => {
          const t = (2 * Math.PI * k) / 40
          return `${(mean[0] + 2 * a * Math.cos(t)).toFixed(1)} ${(mean[1] + 2 * (b * Math.cos(t) + c * Math.sin(t))).toFixed(1)}`
        })
        inner.append(s("path", { class: "ellipse", d: `M${at.join("L")}Z`, style: `stroke:var(--c${slot % 10})` }))
      }
      const words = cut(classes.name[label], 18),
        half = 4 + 4.6 * [...words].length
      const place = [Math.max(box.left + half, Math.min(box.right - half, mean[0])), mean[1]]
      if (taken.some(([u, v, w]) => Math.abs(u - place[0]) < half + w && Math.abs(v - place[1]) < apart)) continue
      taken.push([...place, half])
      labels.append(s("text", { class: "name", x: place[0], y: place[1] + 5, "text-anchor": "middle" }, words))
    }
    this.svg.append(labels)
    this.drawFar(taken)
  }
  // The names of classes outside the view, at the edge where they lie.
  drawFar(taken) {
    if (this.zoom !== "most") return
    const { box, fx, fy } = this.scales,
      { classes } = this.data
    for (const label of this.far) {
      const some = this.found.filter((one) => one.label === label)
      const x = some.reduce((sum, one) => sum + fx(one.x), 0) / some.length,
        y = some.reduce((sum, one) => sum + fy(one.y), 0) / some.length
      const words = cut(classes.name[label], 18),
        half = 12 + 4.6 * [...words].length
      const arrow = x > box.right ? "→" : x < box.left ? "←" : y < box.top ? "↑" : y > box.bottom ? "↓" : ""
      if (!arrow) continue
      const at = Math.max(box.left + half, Math.min(box.right - half, x))
      let up = Math.max(box.top + 14, Math.min(box.bottom - 8, y))
      const step = up > (box.top + box.bottom) / 2 ? -18 : 18
      for (let tries = 0; tries < 8; tries++, up += step)
        if (!taken.some(([u, v, w]) => Math.abs(u - at) < half + w && Math.abs(v - up) < 17)) break
      taken.push([at, up, half])
      const text = arrow === "←" ? `← ${words}` : `${words} ${arrow}`
      this.svg.append(s("text", { class: "name far", x: at, y: up, "text-anchor": "middle" }, text))
    }
  }
  say(found, inside, groups) {
    const { points, classes } = this.data,
      outside = found.length - inside.length
    this.wrong.setAttribute("aria-pressed", String(this.errors))
    this.most.setAttribute("aria-pressed", String(this.zoom === "most"))
    this.every.setAttribute("aria-pressed", String(this.zoom === "all"))
    this.pill.hidden = !this.pair
    if (this.pair)
      this.pill.replaceChildren(
        bdi(cut(classes.name[this.pair[0]], 16)),
        " predicted as ",
        bdi(cut(classes.name[this.pair[1]], 16)),
        " ✕",
      )
    const words =
      `${whole(inside.length)} of ${whole(points.row.length)} points shown` +
      (outside ? `; ${whole(outside)} ${outside === 1 ? "lies" : "lie"} outside this view` : "") +
      (this.far.size && this.zoom === "most"
        ? `, ${this.far.size === 1 ? "one class among them" : `${whole(this.far.size)} classes among them`} (All points shows them)`
        : "") +
      (points.turned ? `; ${whole(points.turned)} older ones are left out, as the directions have turned since` : "") +
      (points.earlier ? "; they lie in the directions of their time, which are earlier than those below" : "") +
      "."
    this.count.textContent = words
    this.svg.setAttribute("aria-label", `Map of the classes: ${words} The table below has their means.`)
    const mean = (members, side) => members.reduce((sum, one) => sum + one[side], 0) / members.length
    this.table.show(
      ["class", "points", "predicted wrongly", "mean across", "mean up"],
      [...groups]
        .sort((a, b) => b[1].length - a[1].length)
        .map(([label, members]) => [
          classes.name[label],
          whole(members.length),
          whole(members.filter((one) => one.wrong).length),
          figures(mean(members, "x")),
          this.y === -1 ? "–" : figures(mean(members, "y")),
        ]),
    )
    const wrong = found
      .filter((one) => one.wrong)
      .slice(-200)
      .reverse()
    this.errorTable.show(
      ["class", "predicted", "probability", "row"],
      wrong.map(({ i, label }) => [
        classes.name[label],
        classes.name[points.predicted[i]],
        percent(points.probability[i]),
        whole(points.row[i]),
      ]),
    )
  }
  hover(event) {
    if (!this.inside) return
    const box = this.plot.getBoundingClientRect(),
      x = event.clientX - box.left,
      y = event.clientY - box.top
    let best = -1,
      least = 14 ** 2
    this.inside.forEach((one, k) => {
      const distance = (this.scales.fx(one.x) - x) ** 2 + (this.scales.fy(one.y) - y) ** 2
      if (distance < least) [best, least] = [k, distance]
    })
    this.point(best)
  }
  step(by) {
    if (!this.inside?.length) return
    this.reading = (this.reading + by + this.inside.length) % this.inside.length
    this.point(this.reading)
  }
  point(k) {
    if (k < 0 || !this.inside?.[k]) {
      this.tip.hidden = true
      this.ring?.setAttribute("visibility", "hidden")
      return
    }
    this.reading = k
    const { points, classes } = this.data,
      one = this.inside[k],
      said = points.predicted[one.i],
      chance = points.probability[one.i]
    const line = (...parts) => h("div", null, ...parts)
    const picture = points.pictures[one.i]
    this.tip.replaceChildren(
      ...(picture ? [h("img", { src: thumbnail(picture, "--ink"), alt: "", width: 64, height: 64 })] : []),
      line(`row ${whole(points.row[one.i])}`),
      line("class ", bdi(classes.name[one.label])),
      said < 0
        ? line("not predicted: too early")
        : line("predicted ", bdi(classes.name[said]), chance === null ? "" : ` with probability ${percent(chance)}`),
    )
    this.ring.setAttribute("visibility", "visible")
    this.ring.setAttribute("cx", this.scales.fx(one.x))
    this.ring.setAttribute("cy", this.scales.fy(one.y))
    placeTip(this.tip, this.plot, this.scales.fx(one.x), this.scales.fy(one.y) + 12)
  }
}
