// Accuracy over time with its alarms, directions, choices, dead letters, the model and where it comes from.
class Drift {
  constructor() {
    this.part = section("drift", "Accuracy over time", "", { wide: true })
    this.element = this.part.element
    this.chart = new LineChart("Accuracy over time", {
      xLabel: "rows so far",
      yLabel: "predicted correctly",
      share: true,
    })
    this.alarms = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Alarms, scrollable" })
    this.late = h("div", null)
    this.part.body.className = "beside"
    this.part.body.append(this.chart.element, h("div", null, this.alarms, this.late))
  }
  show({ progress, alarms, totals, late, label_delay }) {
    this.element.hidden = withoutCourse(totals) // said once, above
    if (this.element.hidden) return
    if (
      !say(
        this.part,
        nothing(totals) || (totals.scored ? "" : "Nothing was predicted yet."),
        `Every row is predicted before it is learnt${label_delay ? `, ${rows(label_delay)} later` : ""}. ` +
          (alarms.count
            ? "A mark is an alarm: the ADWIN test found that the accuracy changed there."
            : "No alarm: the ADWIN test found no change of the accuracy."),
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
    this.late.hidden = !late.length
    this.late.replaceChildren(
      h("h3", null, "If labels come late"),
      plainTable(
        ["labels come", "accuracy", "standard error"],
        late.map((one) => [`${rows(one.delay)} late`, percent(one.accuracy), `± ${percent(one.standard_error)}`]),
        "If labels come late",
        true,
      ),
    )
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
        "The percentage is the part of the criterion that a direction holds. " +
          (directions[0]?.columns.length
            ? `Bars are the weights of its strongest columns${directions[0].in_spreads ? ", each times the standard deviation of the column within the classes" : ""}. `
            : "") +
          "It separates the classes at its low end from those at its high end.",
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
            `Direction ${k + 1}` + (one.share === null ? "" : `: ${part(one.share)}`),
            h("small", null, ` eigenvalue ${figures(one.eigenvalue)}`),
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
                  style: `width:${(100 * Math.abs(weight)) / most}%`,
                }),
              ),
              h("span", null, figures(weight, 3)),
            ]),
          ),
          h("p", { class: "ends" }, "low end: ", names(one.low)),
          h("p", { class: "ends" }, "high end: ", names(one.high)),
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
        part(one.share),
        one.columns.map(([name, weight]) => `${name} ${figures(weight, 3)}`).join("; "),
        spelt(one.low),
        spelt(one.high),
      ]),
    )
  }
}

// Members of the contest, in words; their keys are those of `member_weights_`.
const MEMBERS = {
  all_rows: "the model of all rows",
  frequencies: "how frequent each class was recently",
  label_chain: "the class that follows the last label",
  softmax: "softmax regression",
  passive_aggressive: "passive-aggressive steps",
  least_squares: "least squares, recent rows",
  discriminant: "linear discriminant of all rows",
  products: "softmax regression on products of columns",
  tiles: "softmax regression on intervals of columns",
  fourier: "softmax regression on random Fourier features",
  neighbours: "nearest neighbours among the last rows",
  wide_softmax: "softmax regression on wide rows",
}
// A member that takes part several times, at several rates, keeps its number.
function member(key, keys) {
  const [name, number] = key.split(" "),
    several = keys.filter((one) => one.split(" ")[0] === name).length > 1
  return (MEMBERS[name] ?? name.replaceAll("_", " ")) + (several ? `, rate ${Number(number) + 1}` : "")
}

class Choices {
  constructor() {
    this.part = section("choices", "What was chosen, and why", "", { wide: true })
    this.element = this.part.element
    this.curve = new LineChart("Loss against the parameter", {
      xLabel: "parameter",
      yLabel: "loss on held-out rows",
      log: true,
    })
    this.first = h("div", null, this.curve.element)
    this.compared = h("div", null)
    this.changed = h("div", null)
    this.part.body.className = "three"
    this.part.body.append(this.first, this.compared, this.changed)
  }
  show({ choices, chosen }) {
    const { parameter, log, curve, heads, members, validation_rows } = choices,
      name = parameter === "epsilon" ? "ε" : parameter
    this.element.hidden = !log.length && !curve && !Object.keys(heads).length
    if (this.element.hidden) return
    say(
      this.part,
      "",
      curve || Object.keys(heads).length
        ? `Candidates were compared on ${rows(validation_rows)} that they had not learnt. The loss is roughly the share of them ` +
            "that a candidate gets wrong; lower is better. A simpler one is taken if it loses hardly more. " +
            (curve ? `Where losses are nearly equal, the ${name} stays near its usual value. The dot is the ${name} chosen.` : "")
        : "",
    )
    this.first.hidden = !curve
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
              [words, "loss", "more than the best", ""],
              order.map(([key, loss], k) => [
                key.replaceAll("_", " "),
                figures(loss, 3),
                k ? `+${(loss - order[0][1]).toFixed(4)}` : "–",
                key === used ? "in use" : "",
              ]),
              title,
              true,
            ),
          ]
    }
    const last = log.at(-1)
    const aged = log.some((one) => typeof one.half_life === "number")
    const spell = (one) => [
      whole(one.row),
      figures(one.value),
      one.head.replaceAll("_", " "),
      ...(aged ? [typeof one.half_life === "number" ? whole(one.half_life) : "none"] : []),
    ]
    const keys = Object.keys(members)
    this.compared.replaceChildren(
      ...compared("Heads: from directions to a class", heads, last?.head ?? chosen.find((one) => one.name === "head")?.value, "head"),
      ...(keys.length
        ? [
            h("h3", null, "Which learner predicts the stream"),
            plainTable(
              ["learner", "weight"],
              Object.entries(members)
                .sort((a, b) => b[1] - a[1])
                .map(([key, weight]) => [member(key, keys), part(weight)]),
              "Which learner predicts the stream",
              true,
            ),
            h(
              "p",
              { class: "note" },
              "Each predicts and then learns every row. The smaller its recent losses, the larger its weight now.",
            ),
          ]
        : []),
    )
    this.changed.hidden = !log.length
    this.changed.replaceChildren(
      ...(log.length
        ? [
            h("h3", null, "When the choice changed"),
            h(
              "div",
              { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes, scrollable" },
              plainTable(
                ["after row", name, "head", ...(aged ? ["half-life"] : [])],
                [...log].reverse().map(spell),
                choices.count > log.length ? `the latest ${log.length} of ${whole(choices.count)}` : "the latest first",
              ),
            ),
          ]
        : []),
    )
    if (log.length) fit(this.changed.lastChild, 12)
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
      `${totals.dead === 1 ? "One record" : `${whole(totals.dead)} records`} could not be used, and ${totals.dead === 1 ? "was" : "were"} not learnt.` +
        (file ? ` ${file} has each of them on a line, with the reason.` : ""),
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
              ["what is wrong", "records", "first line", "reason of the first", "its text"].map((text, k) =>
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
    this.run = section("run", "Speed", "Rows per second at each moment, over the last tenth of the time so far.")
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
    this.element.classList.toggle("wide", progress.speed.filter((value) => value !== null).length < 3)
    this.run.element.hidden = progress.speed.filter((value) => value !== null).length < 3
    if (!this.run.element.hidden)
      this.speed.show(progress.rows, [{ name: "rows per second", values: progress.speed, style: "first" }])
  }
}
