"""Opens the embedded model inside Pyodide, with JavaScript and Python in one worker."""

from pathlib import Path
from typing import Any

from mini_vllm.runner.tab.javascript_runner import PROGRAM, JavaScriptModel

EMBEDDED = Path(__file__).resolve().parents[2] / "embedded_model"
MODEL_FILE = "model.safetensors"


def open_model(folder: Path = EMBEDDED) -> JavaScriptModel:
    """Open a folder's model, without a KV cache.

    The model's weights are read from the folder or, if missing there, fetched from the folder that contains Pyodide's
    files. Raises `ValueError` if the weights are in neither folder or are invalid.
    """
    from pyodide.code import run_js
    from pyodide.ffi import JsException, to_js

    numbers: Any = to_js((folder / MODEL_FILE).read_bytes()) if (folder / MODEL_FILE).exists() else fetched(MODEL_FILE)
    try:
        model: JavaScriptModel = run_js(PROGRAM.read_text(encoding="utf-8")).new(
            numbers, (folder / "config.json").read_text(encoding="utf-8")
        )
    except JsException as error:
        raise ValueError(f"the model cannot be opened: {error}") from error
    return model


def fetched(name: str) -> Any:
    """Fetch a file from Pyodide's folder synchronously, as a Uint8Array. Raises `ValueError` on failure."""
    from js import Uint8Array, XMLHttpRequest
    from pyodide.ffi import JsException
    from pyodide_js import lockfileBaseUrl

    address = f"{lockfileBaseUrl}{name}"
    asked = XMLHttpRequest.new()
    try:
        asked.open("GET", address, False)
        asked.responseType = "arraybuffer"
        asked.send()
        status = asked.status
    except JsException:
        status = 0
    if status != 200:
        why = f"the server answered with status {status}" if status else "the server does not answer"
        raise ValueError(f"the model file {address} cannot be read: {why}. Reload the page, or rebuild the site")
    return Uint8Array.new(asked.response)
