"""Serves each call in a fork of a process that has already loaded torch, because loading takes seconds (Linux only).

A fork serves only one call, and the server never loads a starter, so each call loads the learner's saved files anew. To
its caller, a fork is a `WorkerProcess`: its relay owns the pipes and lends them to the fork.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from mini_vllm_labs.fresh.process import COMMAND, MAX_BYTES, OUTPUT_BYTES, saved_since
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

RELAY = (sys.executable, "-I", "-S", str(Path(__file__).with_name("relay.py")))
PAUSE = 0.005


class ForkServer:
    """Provides forks of a process that has loaded torch; the process restarts after one of the course's files is
    saved."""

    def __init__(self) -> None:
        self._server: WorkerProcess | None = None
        self._since = 0.0
        self._end: Callable[[], object] = lambda: None

    def take(self) -> WorkerProcess:
        """Return a process for one call."""
        if self._server is None or not self._server.is_running or saved_since(self._since):
            self._end()
            self._since = time.time()
            self._socket, theirs = socket.socketpair()
            with theirs:
                fd = theirs.fileno()
                self._server = WorkerProcess((*COMMAND, str(fd)), has_channel=False, pass_fds=[fd])
            self._end = weakref.finalize(self, self._server.close)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(self._socket, [b"x"], [ours.fileno()])
            command, fds = (*RELAY, str(theirs.fileno())), [theirs.fileno()]
            return WorkerProcess(command, max_bytes=MAX_BYTES, output_bytes=OUTPUT_BYTES, pass_fds=fds)


def serve_forks(fd: int) -> None:
    """Run the server at the other end of a socket. Returns in each fork, whose stdio is connected to its relay's
    pipes."""
    with socket.socket(fileno=fd) as owner:
        while fds := socket.recv_fds(owner, 1, 1)[1]:
            with socket.socket(fileno=fds[0]) as relay:
                stdio = socket.recv_fds(relay, 1, 3)[1]
                child = os.fork()
                if not child:
                    os.setsid()
                    for place, pipe in enumerate(stdio):
                        os.dup2(pipe, place)
                        os.close(pipe)
                    return
                for pipe in stdio:
                    os.close(pipe)
                with contextlib.suppress(OSError):  # the relay may have been killed
                    relay.sendall(status_of(child, relay).to_bytes(4, "little", signed=True))
    os._exit(0)


def status_of(child: int, relay: socket.socket) -> int:
    """Wait for a fork to exit, or kill it if its relay exits first; then kill its children. Return its status."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or select.select([relay], [], [], PAUSE)[0]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        if ended:
            return os.waitstatus_to_exitcode(status)
