"""A film as plain HTML: a slider that works in a notebook, in an exported page and offline, without a kernel."""

import json
from typing import Any

from course.views.film import Film
from course.views.picture import read_asset

EXPORT = "export default { render };"

# The player talks to a model as anywidget has it; here is one without a kernel behind it.
ALONE = """
const listeners = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (state[name] === value) return;
    state[name] = value;
    for (const listener of listeners[name] ?? []) listener();
  },
  save_changes: () => {},
  on: (name, listener) => (listeners[name.replace("change:", "")] ??= []).push(listener),
  off: () => {},
};
render({ model, el: me.parentNode.firstElementChild });
"""


class Slider:
    """A film with its player in one piece of HTML. Where scripts may not run, it is the picture of `step`."""

    def __init__(self, film: Film, step: int = 0, speed: float = 4) -> None:
        self.film, self.step, self.speed = film, step, speed
        self.picture = film[step]

    def html(self) -> str:
        """Return the HTML: a style, a place that holds the picture at first, and the script that takes it over."""
        state = {"film": self.film.encode(), "step": self.step, "follow": "", "speed": self.speed}
        data = json.dumps(state, ensure_ascii=False).replace("<", "\\u003c")
        player = read_asset("player.js").replace(EXPORT, "")
        script = f"((me) => {{\nconst state = {data};\n{player}{ALONE}}})(document.currentScript);"
        return (
            f"<div><div>{self.picture.html()}</div><style>{read_asset('controls.css')}</style>"
            f"<script>{script}</script></div>"
        )

    def __repr__(self) -> str:
        return f"Slider({self.picture.title!r}, {len(self.film)} steps)"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        return self.picture.bundle() | {"text/html": self.html()}
