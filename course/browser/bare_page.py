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


def open_widget(browser: Any, widget: Any, *, dark: bool = False) -> Any:
    """Return a page with the widget's front end in it, on a light or a dark system and declared as such."""
    page = browser.new_page(viewport={"width": 800, "height": 900}, color_scheme="dark" if dark else "light")
    page.set_content(MODEL % f":root {{ color-scheme: {'dark' if dark else 'light'}; }} {widget._css}")
    state = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    sent = {name: value for name, value in state.items() if name not in ("layout", "tabbable", "tooltip", "comm")}
    page.evaluate("([source, state]) => start(source, state)", [widget._esm, json.loads(json.dumps(sent))])
    return page
