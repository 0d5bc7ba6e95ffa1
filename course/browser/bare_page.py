"""A bare page that runs a widget's front end against a model without a kernel."""

import json
from typing import Any

MODEL = """<!doctype html><style>%s</style><div id="host"></div><script>
window.listeners = {};
window.model = { state: {}, saved: 0, sent: [],
  get(name) { return this.state[name]; },
  set(name, value) { if (this.state[name] === value) return; this.state[name] = value;
    this.sent.push([name, value]); for (const f of listeners["change:" + name] ?? []) f(); },
  save_changes() { this.saved += 1; },
  on(name, f) { (listeners[name] ??= []).push(f); },
  off(name, f) { listeners[name] = listeners[name].filter((g) => g !== f); } };
window.start = async (source, state) => { Object.assign(model.state, state);
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  window.stop = module.default.render({ model, el: document.getElementById("host") }); };
</script>"""


ANSWERED = """() => { let known = "";
  model.save_changes = async () => {
    const { question, step } = model.state, asked = JSON.stringify(question);
    if (asked === known) return;
    known = asked;
    for (const [name, value] of Object.entries(await answer(question, step ?? null))) model.set(name, value); }; }"""


def open_widget(
    browser: Any, widget: Any, *, dark: bool = False, width: int = 800, sharpness: float = 1, is_answered: bool = False
) -> Any:
    """Return a page with the widget's front end, on a light or a dark system and declared to be so.

    If `is_answered`, the panel in Python answers the page's questions.
    """
    scheme, viewport = "dark" if dark else "light", {"width": width, "height": 900}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=sharpness)
    page.set_content(MODEL % f":root {{ color-scheme: {scheme}; }} {widget._css}")
    if is_answered:
        page.expose_function("answer", lambda question, step: answer_of(widget, question, step))
        page.evaluate(ANSWERED)
    state = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    # The others refer to a kernel, and this page has none.
    sent = {name: value for name, value in state.items() if name not in ("layout", "tabbable", "tooltip", "comm")}
    page.evaluate("([source, state]) => start(source, state)", [widget._esm, json.loads(json.dumps(sent))])
    return page


def answer_of(panel: Any, question: dict[str, Any], step: int | None) -> dict[str, Any]:
    """Let a panel answer, and return what changed, in the order in which the kernel would send it."""
    if step is not None:
        panel.step = step
    film = getattr(panel, "film", None)
    panel.question = question
    news = {"film": panel.film, "step": panel.step} if getattr(panel, "film", None) is not film else {}
    return json.loads(json.dumps(news | {"answer": panel.answer}))  # type: ignore[no-any-return]
