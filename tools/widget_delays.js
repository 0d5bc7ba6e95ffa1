// Milliseconds until what the event changed is on the screen: a message after the next frame comes when it is painted.
window.delayOfStep = (step) => new Promise((done) => {
  const start = performance.now(), after = new MessageChannel();
  after.port1.onmessage = () => done(performance.now() - start);
  const slider = document.querySelector('input[type="range"]');
  slider.value = step;
  slider.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => after.port2.postMessage(""));
});

// Keeps, for each input event, the milliseconds until the answer to it is painted: one frame after the panel has drawn it.
window.watchAnswers = () => {
  window.painted = [];
  let since = null;
  const root = document.getElementById("host"), after = new MessageChannel();
  root.addEventListener("input", () => { since = performance.now(); }, true);
  after.port1.onmessage = () => {
    if (since === null || root.dataset.ticket !== root.dataset.answered) return;
    painted.push(performance.now() - since);
    since = null;
  };
  new MutationObserver(() => requestAnimationFrame(() => after.port2.postMessage("")))
    .observe(root, { attributes: true, attributeFilter: ["data-answered"] });
};
