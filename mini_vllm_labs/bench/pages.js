// Milliseconds until what an event changed is on the screen: a message after the next frame comes when it is painted.
window.afterPaint = (done) => {
  const after = new MessageChannel();
  after.port1.onmessage = done;
  return () => requestAnimationFrame(() => after.port2.postMessage(""));
};

// Moves a film's slider; resolves when its picture is painted.
window.delayOfStep = (step) => new Promise((done) => {
  const start = performance.now(), wait = afterPaint(() => done(performance.now() - start));
  const slider = document.querySelector('input[type="range"]');
  slider.value = step;
  slider.dispatchEvent(new Event("input"));
  wait();
});

// Moves the replay slider of the live page; resolves when the server's picture of that step is painted.
window.delayOfReplay = (step) => new Promise((done) => {
  const start = performance.now(), wait = afterPaint(() => done(performance.now() - start));
  const slider = document.getElementById("at"), picture = document.getElementById("picture");
  const seen = new MutationObserver(() => {
    if (picture.dataset.step !== String(step)) return;
    seen.disconnect();
    wait();
  });
  seen.observe(picture, { attributes: true, attributeFilter: ["data-step"] });
  slider.value = step;
  slider.dispatchEvent(new Event("input"));
});

// Keeps, for each input event, the milliseconds until the first answer to it is painted, and until the newest one is.
window.watchAnswers = () => {
  window.painted = [];
  let since = null, isNew = false;
  const root = document.getElementById("host");
  root.addEventListener("input", () => { [since, isNew] = [performance.now(), true]; }, true);
  const wait = afterPaint(() => {
    if (since === null || root.dataset.ticket !== root.dataset.answered) return;
    window.newest = performance.now() - since;
    if (isNew) painted.push(newest);
    isNew = false;
  });
  new MutationObserver(wait).observe(root, { attributes: true, attributeFilter: ["data-answered"] });
};
