// Follow a request or a block: its elements stand out, the others fade.

function mark(svg, key) {
  const [kind, value] = key.split(":");
  for (const part of svg.querySelectorAll("[data-request], [data-block]")) {
    const names = part.getAttribute(`data-${kind}`)?.split(" ");
    part.classList.toggle("mv-followed", Boolean(key && names?.includes(value)));
    part.classList.toggle("mv-dim", Boolean(key && names && !names.includes(value)));
  }
}

function about(svg, key) {
  const parts = [...svg.querySelectorAll("[data-about]")].filter((part) => part.getAttribute("data-about") === key);
  return parts.map((part) => part.querySelector("title")?.textContent ?? "").join(" / ");
}

function keyOf(target) {
  const block = target.closest("[data-block]"), request = target.closest("[data-request]");
  if (block) return `block:${block.getAttribute("data-block").split(" ")[0]}`;
  return request ? `request:${request.getAttribute("data-request").split(" ")[0]}` : "";
}
