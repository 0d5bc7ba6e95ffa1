"""One notebook open in JupyterLab: run it, read what its cells show, change a cell, switch the theme."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import nbformat

READY = """() => { const open = window.jupyterapp?.shell.currentWidget;
  return open?.context?.isReady && open.sessionContext?.session?.kernel?.status === "idle"; }"""
OUTPUTS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .map((cell) => cell.type === "code" ? cell.outputs.toJSON() : [])"""
KERNEL = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
HIDE_ALL_ELSE = """() => { const { shell } = window.jupyterapp;
  shell.collapseLeft(); shell.collapseRight(); shell.mode = "single-document"; }"""
OWN = ("data:", "blob:")


def write_notebook(path: Path, cells: Sequence[str | nbformat.NotebookNode]) -> None:
    """Write a notebook of code cells, for the Python that runs the server."""
    made = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=spec), path)


class Screen:
    """A page with one notebook. `strangers` collects requests to other machines, `errors` the errors of the page."""

    def __init__(self, browser: Any, server: str, width: int = 1100, height: int = 900, sharpness: float = 1) -> None:
        self.server, self.path = server, ""
        self.context = browser.new_context(viewport={"width": width, "height": height}, device_scale_factor=sharpness)
        self.page = self.context.new_page()
        self.strangers: list[str] = []
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("websocket", lambda socket: self._note(socket.url))

    def _note(self, url: str) -> None:
        if not url.startswith((self.server, self.server.replace("http", "ws", 1), *OWN)):
            self.strangers.append(url)

    def open(self, path: str) -> Self:
        """Open a notebook by its path in the course, and wait for its kernel."""
        self.path = path
        self.page.goto(f"{self.server}/lab/tree/{path}?reset")
        self.page.wait_for_function(READY, timeout=90_000)
        self.page.evaluate(HIDE_ALL_ELSE)
        return self

    def command(self, name: str, **arguments: object) -> None:
        """Execute one of JupyterLab's commands, and wait until it is done."""
        self.page.evaluate("([name, given]) => window.jupyterapp.commands.execute(name, given)", [name, arguments])

    def run_all(self) -> Self:
        self.command("notebook:run-all-cells")
        return self

    def run_again(self, cell: int) -> Self:
        """Run one cell once more, in the same kernel."""
        choose = "(cell) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell; }"
        self.page.evaluate(choose, cell)
        self.command("notebook:run-cell")
        return self

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Return each cell's outputs, as they would be saved."""
        saved: list[list[dict[str, Any]]] = self.page.evaluate(OUTPUTS)
        return saved

    def failures(self) -> list[str]:
        every = [output for outputs in self.outputs() for output in outputs]
        return [f"{each['ename']}: {each['evalue']}" for each in every if each["output_type"] == "error"]

    def kernel(self) -> str:
        found: str = self.page.evaluate(KERNEL)
        return found

    def theme(self, name: str) -> Self:
        """Switch to "JupyterLab Light" or "JupyterLab Dark"."""
        self.command("apputils:change-theme", theme=name)
        light = "false" if name.endswith("Dark") else "true"
        self.page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        return self

    def close(self) -> None:
        self.context.close()
