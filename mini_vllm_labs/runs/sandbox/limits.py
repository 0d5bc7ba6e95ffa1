"""Limits the machine resources available to a process that runs untrusted code."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits for one process; None leaves a resource unlimited. Core files are never written.

    `num_processes` counts all of a user's processes, so it is useful only in a jail.
    """

    memory_bytes: int | None = None
    address_bytes: int | None = None
    stack_bytes: int | None = None
    file_bytes: int | None = None
    num_open_files: int | None = None
    num_processes: int | None = None
    cpu_seconds: int | None = None
    num_signals: int | None = None


def limit_resources(limits: Limits) -> None:
    """Limit this process and its future children permanently. Does nothing on Windows."""
    if sys.platform == "win32":
        return
    import resource

    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits.memory_bytes,
        # with torch, set the limit after loading it, because torch reserves more than it uses
        resource.RLIMIT_AS: limits.address_bytes,
        resource.RLIMIT_STACK: limits.stack_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.num_open_files,
        resource.RLIMIT_NPROC: limits.num_processes,
        resource.RLIMIT_CPU: limits.cpu_seconds,
    }
    if sys.platform == "linux":
        values[resource.RLIMIT_SIGPENDING] = limits.num_signals
    for kind, value in values.items():
        _, hard = resource.getrlimit(kind)
        if value is not None and (hard == resource.RLIM_INFINITY or value <= hard):  # a hard limit can only be lowered
            resource.setrlimit(kind, (value, value))  # set both, because code could raise the soft limit again
