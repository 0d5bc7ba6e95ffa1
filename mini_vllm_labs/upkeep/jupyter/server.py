"""Runs a JupyterLab isolated from the user's settings, and controls a notebook in it, in both themes."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import nbformat

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.serve.server_process import free_port

COPIED = ("conftest.py", "pyproject.toml", "labs", "mini_vllm", "mini_vllm_labs", "notebooks", "solutions")
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "*.gz")
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}
FLAGS = (
    "--no-browser --allow-root --ServerApp.ip=127.0.0.1 --ServerApp.port_retries=0 --IdentityProvider.token= "
    "--ServerApp.password= --LabApp.expose_app_in_browser=True --LabApp.extension_manager=readonly "
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"
)
SECONDS = 90.0
READY = """() => { const open = window.jupyterapp?.shell.currentWidget;
  return open?.context?.isReady && open.sessionContext?.session?.kernel?.status === "idle"; }"""
OUTPUTS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .map((cell) => cell.type === "code" ? cell.outputs.toJSON() : [])"""
KERNEL = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"
HIDE_ALL_ELSE = """() => { const { shell } = window.jupyterapp;
  shell.collapseLeft(); shell.collapseRight(); shell.mode = "single-document"; }"""
OWN = ("data:", "blob:")


def copy_course(folder: Path) -> Path:
    """Copy the files that notebooks need into a new folder, and return the folder."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=NOT_COPIED)
        else:
            shutil.copy(source, folder / name)
    return folder


@contextmanager
def jupyterlab(course: Path, home: Path, lineup: str = "") -> Iterator[str]:
    """Serve a copy of the course and yield its address; kernels import the copy and run `lineup`, if given.

    `home` is an empty folder.
    """
    for name, value in SETTINGS.items():
        settings = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(value), encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", *FLAGS.split()]
    log = home / "server.log"
    with log.open("w", encoding="utf-8") as written:
        server = subprocess.Popen(
            [*command, f"--ServerApp.port={port}", f"--ServerApp.root_dir={course}"],
            cwd=course,
            env=environment(course, home) | ({"LAB_IMPL": lineup} if lineup else {}),
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(server, f"{address}/api/status", log)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def environment(course: Path, home: Path) -> dict[str, str]:
    """Return the environment for the server and the kernels, without the user's lineup, checkout and folders."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LAB_IMPL", "PYTEST_", "JUPYTER"))
    }
    folders = {
        name: str(home / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    }
    return kept | folders | {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(course),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def wait_for(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    """Wait until the server responds. Raises a `RuntimeError` with the end of its log if the server never responds."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text(encoding="utf-8")[-2000:]) from None
            time.sleep(0.1)


def write_notebook(path: Path, cells: Sequence[str | nbformat.NotebookNode]) -> None:
    """Write a notebook of code cells for the Python that runs the server."""
    made = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=spec), path)


class Screen:
    """A page with one notebook. `strangers` collects requests to other machines, and `errors` collects the page's
    errors."""

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
        """Run one cell again, in the same kernel."""
        choose = "(cell) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell; }"
        self.page.evaluate(choose, cell)
        self.command("notebook:run-cell")
        return self

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Return each cell's outputs in the form in which they would be saved."""
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
