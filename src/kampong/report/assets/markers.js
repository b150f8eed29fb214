// Markers of the classes: ten colours, then the next shape.
const SHAPES = 13
// A marker of radius r around (x, y).
function marker(shape, x, y, r) {
  const at = (dx, dy) => `${(x + dx * r).toFixed(1)} ${(y + dy * r).toFixed(1)}`
  const ring = (n, start, inner = 1) =>
    [...Array(n).keys()].map((k) => {
      const angle = start + (2 * Math.PI * k) / n
      const size = k % 2 ? inner : 1
      return at(size * Math.cos(angle), size * Math.sin(angle))
    })
  const closed = (corners) => `M${corners.join("L")}Z`
  const round = (size, sweep) =>
    `M${at(-size, 0)}a${size * r} ${size * r} 0 1 ${sweep} ${2 * size * r} 0a${size * r} ${size * r} 0 1 ${sweep} ${-2 * size * r} 0`
  const up = -Math.PI / 2
  switch (shape % SHAPES) {
    case 0:
      return round(1, 1)
    case 1:
      return closed([at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)])
    case 2:
      return closed(ring(3, up).map((corner) => corner))
    case 3:
      return closed([at(0, -1.25), at(1.25, 0), at(0, 1.25), at(-1.25, 0)])
    case 4:
      return closed(ring(3, -up))
    case 5:
      return closed([
        at(-0.4, -1.2),
        at(0.4, -1.2),
        at(0.4, -0.4),
        at(1.2, -0.4),
        at(1.2, 0.4),
        at(0.4, 0.4),
        at(0.4, 1.2),
        at(-0.4, 1.2),
        at(-0.4, 0.4),
        at(-1.2, 0.4),
        at(-1.2, -0.4),
        at(-0.4, -0.4),
      ])
    case 6:
      return closed([
        at(-1.1, -0.6),
        at(-0.6, -1.1),
        at(0, -0.5),
        at(0.6, -1.1),
        at(1.1, -0.6),
        at(0.5, 0),
        at(1.1, 0.6),
        at(0.6, 1.1),
        at(0, 0.5),
        at(-0.6, 1.1),
        at(-1.1, 0.6),
        at(-0.5, 0),
      ])
    case 7:
      return closed(ring(10, up, 0.45))
    case 8:
      return closed(ring(5, up))
    case 9:
      return closed([at(-1.1, -1), at(1.1, -1), at(-1.1, 1), at(1.1, 1)])
    case 10:
      return round(1.15, 1) + round(0.6, 0)
    case 11:
      return (
        closed([at(-1, -1), at(1, -1), at(1, 1), at(-1, 1)]) +
        closed([at(-0.5, -0.5), at(-0.5, 0.5), at(0.5, 0.5), at(0.5, -0.5)])
      )
    default:
      return closed([at(-1, -1.1), at(-1, 1.1), at(1, -1.1), at(1, 1.1)])
  }
}
function swatch(slot) {
  return s(
    "svg",
    { viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: marker(Math.floor(slot / 10), 8, 8, 5.5), style: `fill:var(--c${slot % 10})` }),
  )
}
function quantile(sorted, share) {
  const place = share * (sorted.length - 1),
    low = Math.floor(place)
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low])
}
