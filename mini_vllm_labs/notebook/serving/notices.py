"""Sends plain requests to a server, and builds notices for its errors and for missing packages."""

import json as json_format
import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mini_vllm.installation import CONSTRAINTS, FOLDER
from mini_vllm_labs.notebook.notice import Notice, Remark

NOT_RECORDED = "not_recorded"
SECONDS = 60.0
CLIENT = ("openai", "prometheus_client")
SERVER = (*CLIENT, "fastapi", "uvicorn", "httptools")
INSTALL = f"%pip install -c {os.path.relpath(CONSTRAINTS, FOLDER / 'notebooks')}"


def fetch(address: str, path: str, method: str = "GET", *, json: bool = False) -> Any:
    """Return the answer to a request without a body, as text or parsed from JSON. Raises `OSError`."""
    with urlopen(Request(address + path, method=method), timeout=SECONDS) as answer:
        text = answer.read().decode()
    return json_format.loads(text) if json else text


def notice_of_error(error: Exception, whose: str) -> Notice | None:
    """Return the notice for an error in the client, or None if the cell's own code raised it."""
    import openai

    match error:
        case openai.APIStatusError() if error.code == NOT_RECORDED:
            return not_recorded()
        case HTTPError() if NOT_RECORDED in error.read().decode(errors="replace"):
            # caught before URLError, its base class
            return not_recorded()
        case openai.APIStatusError() if error.status_code < 500:
            return Notice(f"The server refused this: {error.status_code}", message_of(error))
        case openai.APITimeoutError() | TimeoutError():  # caught before APIConnectionError, its base class
            return Notice("No answer in time", f"The engine may be in a step that does not end.\n\n{whose}")
        case openai.APIConnectionError() | URLError():
            return Notice("The server has ended", f"Run the cell that starts it again.\n\n{whose}")
        case openai.APIError():
            return Notice("The engine did not finish", f"{message_of(error)}\n\n{whose}")
    return None


def not_recorded() -> Notice:
    return Remark("Not recorded", "Only the notebook's own requests are recorded. Your engine answers anything.")


def message_of(error: Exception) -> str:
    body = getattr(error, "body", None)
    return str(body["message"]) if isinstance(body, dict) and "message" in body else str(error)


def missing_extras(needed: Sequence[str]) -> Notice | None:
    missing = [name for name in needed if find_spec(name) is None]
    if not missing:
        return None
    text = "The rest of the course does without. Run this line in a cell, restart the kernel, and run all cells again:"
    return Notice(f"This notebook needs {', '.join(missing)}", text, " ".join([INSTALL, *missing]))
