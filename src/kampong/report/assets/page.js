// The page: put together once, shown again with every new state; a live page asks its server for the next one.
function build() {
  const map = new ClassMap(),
    verdict = new Verdict(),
    tiles = new Tiles(),
    confusions = new Confusions(map),
    classes = new ClassTable(),
    drift = new Drift()
  const directions = new Directions(),
    choices = new Choices(),
    dead = new DeadLetters(),
    facts = new Facts()
  const title = h("h1", { id: "title" }),
    state = h("p", { id: "state", role: "status" }),
    link = h("p", { id: "report" })
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#map" }, "Skip to the map"),
    h("header", null, title, state, link, verdict.element, tiles.element),
    h(
      "main",
      null,
      drift.element,
      confusions.element,
      classes.element,
      map.element,
      directions.element,
      choices.element,
      dead.element,
      facts.run.element,
      facts.element,
    ),
    h("footer", null, "Made by kampong."),
  )
  if (document.documentElement.dataset.live !== undefined)
    link.append(h("a", { href: "report.html" }, "The report of this moment"), ": one file to keep.")
  else link.remove()
  return (data) => {
    document.title = data.title
    title.replaceChildren(bdi(data.title))
    state.textContent = data.state
    for (const part of [verdict, map, tiles, confusions, classes, drift, directions, choices, dead, facts]) part.show(data)
    cueScrolling()
    document.documentElement.dataset.rows = data.totals.rows
    document.documentElement.dataset.shown = data.number ?? 0
  }
}
async function follow(show) {
  let seen = -1,
    wait = 500
  for (;;) {
    try {
      const answer = await fetch(`data?seen=${seen}`, { cache: "no-store" })
      if (answer.status === 200) {
        const data = await answer.json()
        show(data)
        seen = data.number
        wait = 500
        if (data.finished) return
      } else await new Promise((next) => setTimeout(next, (wait = Math.min(2 * wait, 10000))))
    } catch {
      document.getElementById("state").textContent =
        "The page is not served at the moment. This is the last state it showed."
      await new Promise((next) => setTimeout(next, (wait = Math.min(2 * wait, 10000))))
    }
  }
}
const held = document.getElementById("data")?.textContent
const show = build()
if (held) show(JSON.parse(held))
else follow(show)
