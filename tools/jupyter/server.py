"""A separate JupyterLab, with its own settings, port and folder and nothing of the user's."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.serve.server_process import free_port
from mini_vllm.assembly.lineup import CHECKOUT

COPIED = ("conftest.py", "pyproject.toml", "labs", "mini_vllm", "course", "bench", "serving", "notebooks", "solutions")
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


def copy_course(folder: Path) -> Path:
    """Copy what the notebooks need into a new folder, and return it."""
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
    """Serve a copy of the course, and yield the address; kernels import the copy and run the `lineup`, if there is one.

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
    """Return the environment of the server and its kernels: no lineup, checkout or folder of the user's."""
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
    """Wait until the server answers. Raises `RuntimeError` with the end of its log if it does not."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text(encoding="utf-8")[-2000:]) from None
            time.sleep(0.1)
