"""Holds the server's settings in one frozen object, which is checked when it is created."""

import math
import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mini_vllm.config import require_at_least

TIMEOUTS = ("header_timeout", "body_timeout", "send_timeout", "step_timeout", "request_timeout")
MAX_OPEN_FILES = 65536
ALLOWED_HOST = re.compile(r"\*|\[[\da-fA-F:.]+\]|[\w.-]+")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server's address and limits. Times are in seconds, and sizes are in bytes.

    Port 0 means any free port. If `api_key` is set, requests must include it, except those to `/health` and `/metrics`,
    as in vLLM. A connection is closed if the header of its first or any later request is incomplete after
    `header_timeout`, or if its client reads nothing for `send_timeout`. A request is ended `request_timeout` seconds
    after its arrival (None: never). A step that takes longer than `step_timeout` makes `/health` report the engine as
    stuck. On shutdown, running requests have `shutdown_timeout` seconds to finish. `max_choices` is the maximum number
    of texts per request. `allowed_hosts` lists further names that the server accepts, in addition to its address.
    `adapters` lists names that requests may give instead of the model's name.

    Raises `ValueError` for an invalid setting, giving its name, its value and the legal range.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    model_name: str = "mini-vllm"
    api_key: str | None = None
    header_timeout: float = 10.0
    body_timeout: float = 30.0
    send_timeout: float = 60.0
    step_timeout: float = 60.0
    request_timeout: float | None = None
    shutdown_timeout: float = 30.0
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = 4 * 1024 * 1024
    max_choices: int = 256
    allowed_hosts: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.model_name:
            raise ValueError("model_name must not be empty")
        if self.model_name in self.adapters:
            raise ValueError(f"adapters must not have the model's name, got {self.model_name!r}")
        if self.api_key is not None and not (self.api_key and self.api_key.isascii() and self.api_key.isprintable()):
            raise ValueError("api_key must be non-empty printable ASCII")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 (any free port) to 65535, got {self.port}")
        if wrong := [host for host in self.allowed_hosts if not ALLOWED_HOST.fullmatch(host)]:
            raise ValueError(f"allowed_hosts must be names without a port, such as lab.example, or *, got {wrong[0]!r}")
        require_at_least(self, 1, "max_header_bytes", "max_body_bytes", "max_choices")
        for name in TIMEOUTS:
            seconds = getattr(self, name)
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name} must be a finite number of seconds greater than 0, got {seconds!r}")
        if not (math.isfinite(self.shutdown_timeout) and self.shutdown_timeout >= 0):
            raise ValueError(
                f"shutdown_timeout must be a finite number of seconds, at least 0, got {self.shutdown_timeout!r}"
            )


def allow_many_connections() -> None:
    """Raise this process's limit on open files, because the default allows only about a thousand connections."""
    if find_spec("resource") is None:  # Windows
        return
    import resource

    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limit))


def num_free_files() -> float:
    """Return how many more files this process may open, or infinity if the system does not report it."""
    if find_spec("resource") is None or not Path("/dev/fd").is_dir():  # Windows
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit - len(os.listdir("/dev/fd"))
