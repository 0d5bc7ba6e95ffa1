// What scrolls inside of itself can be reached and scrolled by key.
function reachable() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .live, pre > code, pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  setTimeout(reachable, 300);
});
addEventListener("resize", reachable);
