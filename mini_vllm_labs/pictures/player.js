// Shows a film: swaps only the layers that change. Python draws every picture.

// Seconds per step at speed 1: time to read a sentence, as long as the whole film takes about half a minute.
const SLOWEST = 1.2, QUICKEST = 0.3, WHOLE_FILM = 30;

// The picture is drawn for several widths. It takes the widest that fits, and grows to the room, but not beyond this.
const MAX_GROWTH = 1.3;
// Alone on the screen the drawing for a page of this width fills the screen: its text grows with the window.
const LECTURE = 720;

const aspect = ({ svg }) => {
  const [, width, height] = svg.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/);
  return width / height;
};

function unfold(view) {
  const now = [];
  return view.changes.map((changes) => {
    for (let i = 0; i < changes.length; i += 2) now[changes[i]] = changes[i + 1];
    return now.slice();
  });
}

function render({ model, el: root }) {
  let film, view, states, svg, layers, shown = [], at = null, timer = null, stoppedBy = "", dragging = false, moving = [];
  const last = () => film.frames.length - 1;
  const save = (name, value) => { model.set(name, value); model.save_changes(); };
  const go = (step) => save("step", Math.max(0, Math.min(last(), step)));
  const move = (by) => go(model.get("step") + by);
  const follow = (key) => save("follow", key === model.get("follow") ? "" : key);

  const pace = () => Math.min(SLOWEST, Math.max(QUICKEST, WHOLE_FILM / film.frames.length)) / model.get("speed");
  function stop(event = "") {
    clearTimeout(timer);
    timer = null;
    stoppedBy = event;
    play.textContent = "▶ play";
  }
  function wait() {
    clearTimeout(timer);
    timer = setTimeout(next, 1000 * pace());
  }
  function next() {
    move(1);
    const event = stops.checked ? film.frames[model.get("step")].stop : "";
    if (!event && model.get("step") < last()) return wait();
    stop(event);
    show();
  }
  function toggle() {
    if (timer) return stop();
    if (model.get("step") >= last()) go(0);
    play.textContent = "❚❚ pause";
    wait();
  }
  function changeSpeed() {
    if (timer) wait();
    speed.value = model.get("speed");
  }

  const play = button("▶ play", "play or pause", toggle);
  const range = make("input", { type: "range", min: 0, oninput: () => go(Number(range.value)) });
  range.setAttribute("aria-label", "step");
  range.onpointerdown = () => { dragging = true; };
  range.onpointerup = range.onpointercancel = () => { dragging = false; };
  const stops = make("input", { type: "checkbox" });
  const stopping = make("label", { className: "mvw-stops" }, stops, "stop at events");
  const speed = speedMenu(model.get("speed"), (value) => save("speed", value));
  const scales = button("", "in steps or in time: a step as wide as its tokens",
    () => save("scale", model.get("scale") === "time" ? "steps" : "time"));
  const options = make("div", { className: "mvw-options" }, speed);
  const legend = make("div", { className: "mvw-legend", hidden: true });
  const meaning = button("?", "what the signs mean", () => {
    legend.hidden = !legend.hidden;
    meaning.setAttribute("aria-expanded", !legend.hidden);
  });
  meaning.setAttribute("aria-expanded", false);
  const tools = lectureTools(root, () => svg);
  const place = make("output", { className: "mvw-step" });
  const jumps = {
    first: button("|◀", "first", () => go(0)), previous: button("◀", "previous", () => move(-1)),
    next: button("▶", "next", () => move(1)), last: button("▶|", "last", () => go(last())),
  };
  const bar = make("div", { className: "mvw-bar" },
    jumps.first, jumps.previous, play, jumps.next, jumps.last, range, place, options);
  const picture = make("div", { className: "mvw-picture" });
  const following = make("div", { className: "mvw-about" });
  const spoken = make("div", { className: "mvw-spoken" });
  spoken.setAttribute("aria-live", "polite");
  const text = make("pre"), summary = make("summary", { textContent: "As text" });
  let menu = make("select");
  const lines = typeof linesPart === "undefined" ? null : linesPart(go); // a page without lines is without lines.js
  root.classList.add("mvw");
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.replaceChildren(bar, legend, picture, following, spoken, lines?.root ?? "",
    make("div", { className: "mvw-foot" }, make("details", {}, summary, text), ...tools));
  // The picture saved behind a widget in a notebook is hidden while the widget runs.
  root.append(make("style", { textContent: `[data-place="${model.get("place") ?? ""}"] { display: none; }` }));

  function load() {
    stop();
    film = model.get("film");
    view = null;
    legend.innerHTML = film.legend;
    lines?.load(film);
    range.max = last();
    range.setAttribute("aria-label", film.word);
    for (const [name, jump] of Object.entries(jumps)) {
      jump.title = `${name} ${film.word}`;
      jump.setAttribute("aria-label", jump.title);
    }
    menu = followMenu(film.follow, (key) => save("follow", key));
    const events = [...new Set(film.frames.flatMap(({ stop }) => (stop ? stop.split(", ") : [])))];
    stopping.title = `pause where there is one: ${events.join(", ")}`;
    options.replaceChildren(...(film.has_time ? [scales] : []), speed, ...(events.length ? [stopping] : []),
      ...(film.follow.length ? [menu] : []), ...(film.legend ? [meaning] : []));
    for (const part of [root, ...root.querySelectorAll("button, input, select, summary")])
      part.dataset.lmSuppressShortcuts = "true";
    fit();
  }
  function fit() {
    const room = isAlone(root) ? Math.min(root.clientWidth, LECTURE) : root.clientWidth;
    const widest = film.views.findLast(({ width }) => width <= room) ?? film.views[0];
    const grown = isAlone(root) ? `calc(${aspect(widest)} * (100vh - ${bar.offsetHeight + 60}px))` : `${MAX_GROWTH * widest.width}px`;
    picture.style.maxWidth = grown;
    if (widest === view) return;
    view = widest;
    states = unfold(view);
    picture.innerHTML = view.svg;
    svg = picture.firstElementChild;
    layers = view.names.map((name) => svg.querySelector(`[data-layer="${CSS.escape(name)}"]`));
    shown = [];
    at = null;
    showScale();
    show();
  }
  function show() {
    const step = Math.max(0, Math.min(last(), model.get("step"))), state = states[step], frame = film.frames[step];
    const swap = () =>
      state.forEach((fragment, i) => { if (fragment !== shown[i]) layers[i].innerHTML = film.fragments[fragment]; });
    if (Math.abs(step - at) === 1 && at !== null && !dragging && isMotionWanted())
      moving = travel(svg, moving, swap, Math.min(TRAVEL, 600 * (timer ? pace() : 1)));
    else if (step !== at) {
      for (const animation of moving.splice(0)) animation.cancel();
      swap();
    }
    if (step !== at && timer === null) stoppedBy = "";
    shown = state;
    at = step;
    svg.setAttribute("aria-label", `${frame.title}. ${frame.sentence}`);
    svg.querySelector("title").textContent = frame.title;
    svg.querySelector("desc").textContent = frame.sentence;
    root.setAttribute("aria-label", frame.title);
    root.dataset.step = step;
    range.value = step;
    range.setAttribute("aria-valuetext", `${film.word} ${step} of ${last()}`);
    place.textContent = `${film.word} ${step} of ${last()}`;
    if (!timer) spoken.textContent = stoppedBy ? `Stopped: ${stoppedBy}. ${frame.sentence}` : frame.sentence;
    text.textContent = film.fragments[frame.text_alternative];
    showFollowed();
  }
  function showScale() {
    const inTime = film.has_time && model.get("scale") === "time";
    svg.classList.toggle("mv-time", inTime);
    scales.textContent = inTime ? "in time" : "in steps";
    scales.title = inTime ? "make all steps equally wide" : "make a step as wide as its tokens";
    scales.setAttribute("aria-pressed", inTime);
  }
  function showFollowed() {
    const key = model.get("follow");
    mark(svg, key);
    const stopped = stoppedBy && `stopped: ${stoppedBy}`;
    following.textContent = key ? about(svg, key) || "not in this step" : stopped;
    root.dataset.follow = key;
    lines?.show(key, film.follow.find(([one]) => one === key)?.[1] ?? key.replace(":", " "), at);
    menu.value = key;
  }

  picture.onclick = ({ target }) => {
    const place = target.closest("[data-go-to]"), refused = target.closest("[data-why]"), key = keyOf(target);
    if (refused) {
      go(Number(refused.getAttribute("data-why")));
      save("follow", key);
    } else if (place) go(Number(place.getAttribute("data-go-to")));
    else follow(key);
  };
  root.onkeydown = (event) => {
    const within = event.target !== root;
    const keys = {
      ArrowRight: () => move(1), ArrowLeft: () => move(-1), PageUp: () => move(-1), PageDown: () => move(1),
      Home: () => go(0), End: () => go(last()), " ": toggle, Escape: () => save("follow", ""),
    };
    if (event.altKey || event.ctrlKey || event.metaKey || !keys[event.key]) return;
    if (within && (event.key !== "Escape") && event.target.matches("input, select, button, summary")
      && !(event.target.matches("button") && event.key.startsWith("Arrow"))) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  };
  root.addEventListener("mvw-show", ({ detail: { step = model.get("step"), follow = "" } }) => {
    stop();
    go(step);
    save("follow", follow);
    root.scrollIntoView({ block: "nearest", behavior: "smooth" });
  });
  load();
  changeSpeed();
  const watched = new ResizeObserver(fit);
  watched.observe(root);
  const listeners = {
    "change:film": load, "change:step": show, "change:follow": showFollowed, "change:speed": changeSpeed,
    "change:scale": showScale,
  };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  return () => {
    stop();
    watched.disconnect();
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
  };
}

export default { render };
