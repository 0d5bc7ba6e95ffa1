"""Stands for a fork in `forks.py`: lends it stdin, stdout and stderr, and ends as it ends. A program of its own."""

import contextlib
import os
import signal
import socket
import sys

with socket.socket(fileno=int(sys.argv[1])) as server:
    socket.send_fds(server, [b"x"], [0, 1, 2])
    answer = server.recv(4)
status = int.from_bytes(answer, "little", signed=True) if answer else 1  # none: the server has died
if status < 0:
    with contextlib.suppress(OSError):  # no process can handle SIGKILL
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
