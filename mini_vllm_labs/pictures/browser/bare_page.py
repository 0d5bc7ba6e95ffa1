"""Opens a bare page that runs a widget's front end against a model without a kernel."""

import json
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("bare_page.html").read_text(encoding="utf-8")


def open_widget(
    browser: Any, widget: Any, *, dark: bool = False, width: int = 800, sharpness: float = 1, is_answered: bool = False
) -> Any:
    """Open a page with the widget's front end, with system and page both light or both dark.

    If `is_answered`, the Python panel answers calls from the page.
    """
    scheme, viewport = "dark" if dark else "light", {"width": width, "height": 900}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, device_scale_factor=sharpness)
    page.set_content(PAGE.replace("STYLE", f":root {{ color-scheme: {scheme}; }} {widget._css}", 1))
    if is_answered:
        page.expose_function("answer", lambda question, step: answer_of(widget, question, step))
        page.evaluate("answerQuestions()")
    state = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    # The other traits refer to a kernel, and this page does not have one.
    sent = {name: value for name, value in state.items() if name not in ("layout", "tabbable", "tooltip", "comm")}
    page.evaluate("([source, state]) => start(source, state)", [widget._esm, json.loads(json.dumps(sent))])
    return page


def answer_of(panel: Any, question: dict[str, Any], step: int | None) -> dict[str, Any]:
    """Make a panel respond, and return its changes in the order in which the kernel would send them."""
    if step is not None:
        panel.step = step
    film = getattr(panel, "film", None)
    panel.question = question
    news = {"film": panel.film, "step": panel.step} if getattr(panel, "film", None) is not film else {}
    return json.loads(json.dumps(news | {"answer": panel.answer}))  # type: ignore[no-any-return]
