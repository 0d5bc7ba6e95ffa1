// Motion: an element with a `data-id` travels from its place in the last picture to its place in this one. Where a
// picture has no such element, its place is that of the element with this `data-home`: a block's cell in the pool.

const TRAVEL = 250;

function places(svg) {
  const found = new Map();
  for (const name of ["home", "id"])
    for (const node of svg.querySelectorAll(`[data-${name}]`))
      found.set(`${node.closest("[data-side]")?.dataset.side ?? ""}${node.dataset[name]}`, node);
  return found;
}

function centre(node) {
  const box = node.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

function isMotionWanted() {
  return !matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// Remembers where everything is, makes the change, and lets what moved travel. Returns the animations.
function travel(svg, running, change, duration) {
  const before = new Map([...places(svg)].map(([key, node]) => [key, centre(node)]));
  for (const animation of running) animation.cancel();
  change();
  if (!svg.getBoundingClientRect().width) return [];  // out of sight, an element has no place to come from
  const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
  const moves = [...places(svg)].map(([key, node]) => [node, before.get(key), centre(node)]);
  return moves.flatMap(([node, from, to]) => {
    if (!from) return [node.animate({ opacity: [0, 1] }, { duration })];
    const [x, y] = [(from[0] - to[0]) * scale, (from[1] - to[1]) * scale];
    if (Math.hypot(x, y) < 0.5) return [];
    return [node.animate({ translate: [`${x}px ${y}px`, "0px 0px"] }, { duration, easing: "ease-in-out" })];
  });
}
