// Accuracy over time with its alarms, directions, choices, dead letters, the model and where it comes from.
class Drift {
  constructor() {
    this.part = section("drift", "Accuracy over time", "")
    this.element = this.part.element
    this.chart = new LineChart("Accuracy over time", {
      xLabel: "rows so far",
      yLabel: "predicted rightly",
      share: true,
    })
    this.alarms = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Alarms, scrollable" })
    this.part.body.append(this.chart.element, this.alarms)
  }
  show({ progress, alarms, totals, recent }) {
    this.element.hidden = withoutCourse(totals) // said once, above
    if (this.element.hidden) return
    if (
      !say(
        this.part,
        nothing(totals) || (totals.scored ? "" : "Nothing was predicted yet."),
        "All rows so far, and the recent ones at each moment. " +
          (alarms.count
            ? `Marks are alarms: ADWIN found that the accuracy ${alarms.count === 1 ? "changed once" : `changed ${whole(alarms.count)} times`}.`
            : "No alarm: ADWIN found no change of the accuracy."),
      )
    )
      return
    const text = (one) =>
      `row ${whole(one.row)}: accuracy ${one.after < one.before ? "fell" : "rose"} from ${percent(one.before)} to ${percent(one.after)}`
    const marks = alarms.latest.map((one) => ({ x: one.row, rise: one.after >= one.before, text: text(one) }))
    this.chart.show(
      progress.rows,
      [
        { name: "all rows so far", values: progress.accuracy, style: "first" },
        { name: "recent rows", values: progress.recent, style: "second" },
      ],
      marks,
    )
    this.alarms.hidden = !alarms.count
    this.alarms.replaceChildren(
      plainTable(
        ["accuracy", "after row", "before", "since"],
        [...alarms.latest]
          .reverse()
          .map((one) => [
            one.after < one.before ? "▼ fell" : "▲ rose",
            whole(one.row),
            percent(one.before),
            percent(one.after),
          ]),
        `Alarms, the latest first${alarms.count > alarms.latest.length ? `; ${alarms.latest.length} of ${whole(alarms.count)}` : ""}`,
      ),
    )
    fit(this.alarms, 6)
  }
}

class Directions {
  constructor() {
    this.part = section("directions", "What the directions are", "", { wide: true })
    this.element = this.part.element
    this.cards = h("div", { class: "cards" })
    this.more = h("button", {
      type: "button",
      on: {
        click: () => {
          this.all = !this.all
          this.show(this.data)
        },
      },
    })
    this.table = behind("The directions as a table")
    this.part.body.append(this.cards, h("div", { class: "bar" }, this.more), this.table.details)
  }
  show(data) {
    this.data = data
    const { directions, classes } = data
    if (
      !say(
        this.part,
        directions.length ? "" : "No directions yet: they need rows of two classes.",
        "Its eigenvalue is what a direction adds to the criterion, its share that of all. " +
          (directions[0]?.columns.length
            ? `Weights are those of its strongest columns${directions[0].in_spreads ? ", each times the column's spread within the classes" : ""}. `
            : "") +
          "Below are the classes at its two ends, which it tells apart.",
      )
    )
      return
    const names = (places) =>
      places.flatMap((place, k) => [k ? ", " : "", h("b", null, bdi(cut(classes.name[place], 40)))])
    const shown = this.all ? directions : directions.slice(0, 6)
    this.cards.replaceChildren(
      ...shown.map((one, k) => {
        const most = Math.max(...one.columns.map(([, weight]) => Math.abs(weight)))
        return h(
          "div",
          null,
          h(
            "h3",
            null,
            `Direction ${k + 1}: ${figures(one.eigenvalue)}` + (one.share === null ? "" : `, ${percent(one.share)}`),
          ),
          h(
            "div",
            { class: "columns" },
            one.columns.flatMap(([name, weight]) => [
              h("span", { class: "text", title: name }, bdi(name)),
              h(
                "span",
                { "aria-hidden": "true" },
                h("span", {
                  class: weight < 0 ? "weight minus" : "weight",
                  style: `width:${(88 * Math.abs(weight)) / most}px`,
                }),
              ),
              h("span", null, figures(weight, 3)),
            ]),
          ),
          h("p", { class: "ends" }, "low: ", names(one.low)),
          h("p", { class: "ends" }, "high: ", names(one.high)),
        )
      }),
    )
    this.more.hidden = directions.length <= 6
    this.more.textContent = this.all ? "Show fewer" : `Show all ${directions.length}`
    const spelt = (places) => places.map((place) => classes.name[place]).join(", ")
    this.table.show(
      ["direction", "eigenvalue", "share", "columns", "low", "high"],
      directions.map((one, k) => [
        `${k + 1}`,
        figures(one.eigenvalue),
        percent(one.share),
        one.columns.map(([name, weight]) => `${name} ${figures(weight, 3)}`).join("; "),
        spelt(one.low),
        spelt(one.high),
      ]),
    )
  }
}

class Choices {
  constructor() {
    this.part = section("choices", "What was chosen, and why", "")
    this.element = this.part.element
    this.curve = new LineChart("Loss against the parameter", {
      xLabel: "parameter",
      yLabel: "loss on held-out rows",
      log: true,
    })
    this.tables = h("div", null)
    this.part.body.append(this.curve.element, this.tables)
  }
  show({ choices, chosen }) {
    const { parameter, log, curve, heads, members, judges } = choices,
      name = parameter === "epsilon" ? "ε" : parameter
    this.element.hidden = !log.length && !curve && !Object.keys(heads).length
    if (this.element.hidden) return
    say(
      this.part,
      "",
      (curve || Object.keys(heads).length ? `On ${rows(judges)} held out; lower is better. ` : "") +
        (choices.count > 1
          ? `What is in use changed ${whole(choices.count - 1)} time${choices.count === 2 ? "" : "s"}.`
          : ""),
    )
    this.curve.element.hidden = !curve
    if (curve) {
      this.curve.name = `Loss against the ${name}`
      this.curve.xLabel = name
      const order = curve.values
        .map((_, k) => k)
        .filter((k) => curve.values[k] > 0)
        .sort((a, b) => curve.values[a] - curve.values[b])
      const x = order.map((k) => curve.values[k]),
        losses = order.map((k) => curve.losses[k])
      const inside = curve.chosen >= x[0] && curve.chosen <= x.at(-1),
        next = x.findIndex((value) => value >= curve.chosen)
      const low = Math.max(0, next - 1),
        part = next > 0 ? (Math.log(curve.chosen) - Math.log(x[low])) / (Math.log(x[next]) - Math.log(x[low])) : 0
      this.curve.show(
        x,
        [{ name: "loss", values: losses, style: "first" }],
        [],
        inside ? [curve.chosen, losses[low] + part * (losses[next] - losses[low])] : null,
      )
    }
    const compared = (title, losses, used, words) => {
      const order = Object.entries(losses).sort((a, b) => a[1] - b[1])
      return order.length < 2
        ? []
        : [
            h("h3", null, title),
            plainTable(
              [words, "loss", ""],
              order.map(([key, loss]) => [key.replaceAll("_", " "), figures(loss), key === used ? "in use" : ""]),
              title,
              true,
            ),
          ]
    }
    const last = log.at(-1)
    const spell = (one) => [
      whole(one.row),
      figures(one.value),
      one.head.replaceAll("_", " "),
      one.half_life === null ? "–" : one.half_life === "none" ? "none" : whole(one.half_life),
    ]
    this.tables.replaceChildren(
      ...compared("Heads", heads, last?.head ?? chosen.find((one) => one.name === "head")?.value, "head"),
      ...(Object.keys(members).length
        ? [
            h("h3", null, "Who predicts"),
            plainTable(
              ["member of the contest", "weight"],
              Object.entries(members)
                .sort((a, b) => b[1] - a[1])
                .map(([key, weight]) => [key.replaceAll("_", " "), figures(weight)]),
              "Who predicts",
              true,
            ),
            h("p", { class: "note" }, "Every member learns every row. Its recent losses say how much it counts."),
          ]
        : []),
      ...(log.length
        ? [
            h("h3", null, "When it changed"),
            h(
              "div",
              { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes, scrollable" },
              plainTable(
                ["after row", name, "head", "half-life"],
                [...log].reverse().map(spell),
                choices.count > log.length ? `the latest ${log.length} of ${whole(choices.count)}` : "the latest first",
              ),
            ),
          ]
        : []),
    )
    if (log.length) fit(this.tables.lastChild, 7)
  }
}

class DeadLetters {
  constructor() {
    this.part = section("dead", "Dead letters", "", { wide: true })
    this.element = this.part.element
  }
  show({ dead, totals, provenance }) {
    this.element.hidden = !dead.length
    if (!dead.length) return
    const file = provenance.find(([name]) => name === "dead letters file")?.[1]
    say(
      this.part,
      "",
      `${totals.dead === 1 ? "One record" : `${whole(totals.dead)} records`} could not be used.` +
        (file ? ` All of them are in ${file}, one a line, with the reason.` : ""),
    )
    this.part.body.replaceChildren(
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Dead letters by reason, scrollable" },
        h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["what is wrong", "records", "first in line", "the first of them", "it begins"].map((text, k) =>
                h("th", { class: k === 1 || k === 2 ? null : "words", scope: "col" }, text),
              ),
            ),
          ),
          h(
            "tbody",
            null,
            dead.map((one) =>
              h(
                "tr",
                null,
                h("td", { class: "words" }, bdi(one.kind)),
                h("td", { "data-key": "dead" }, whole(one.rows)),
                h("td", null, whole(one.line)),
                h("td", { class: "words" }, bdi(one.reason)),
                h("td", { class: "words" }, bdi(one.record)),
              ),
            ),
          ),
        ),
      ),
    )
  }
}

class Facts {
  constructor() {
    this.run = section("run", "Speed", "Over the last tenth of the time.")
    this.speed = new LineChart("Speed", { xLabel: "rows so far", yLabel: "rows per second" })
    this.run.body.append(this.speed.element)
    this.part = section("facts", "Model and provenance", "")
    this.part.caption.remove()
    this.element = this.part.element
  }
  show({ facts, provenance, progress }) {
    const table = (pairs) =>
      h(
        "table",
        { class: "plain" },
        h(
          "tbody",
          null,
          pairs.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, bdi(name)), h("td", null, bdi(value)))),
        ),
      )
    this.part.body.replaceChildren(
      h("h3", null, "Model"),
      table(facts),
      ...(provenance.length ? [h("h3", null, "Where it comes from"), table(provenance)] : []),
    )
    this.run.element.hidden = progress.speed.filter((value) => value !== null).length < 3
    if (!this.run.element.hidden)
      this.speed.show(progress.rows, [{ name: "rows per second", values: progress.speed, style: "first" }])
  }
}
