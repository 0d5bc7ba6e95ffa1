// What scrolls inside of itself can be reached and scrolled by key.
function reachable() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .live, pre > code, pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  reachable();
  // The theme wraps wide tables some time later, and fonts that arrive make them wider.
  new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
  document.fonts.ready.then(reachable);
});
addEventListener("load", reachable);
addEventListener("resize", reachable);
