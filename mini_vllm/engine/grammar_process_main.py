"""The main function of the children of `GrammarProcesses`."""

import os
import pickle
import signal
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO

from mini_vllm.engine import grammar_source  # noqa: F401  # loaded before the first call


def main() -> None:
    """Handle the calls that arrive on standard input until it closes. The argument is the memory limit in MiB."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process in a terminal
    limit_memory(int(sys.argv[1]) << 20)
    if sys.platform != "win32":
        os.nice(5)  # running requests' steps take precedence
    calls = SimpleQueue[tuple[Any, ...]]()
    threading.Thread(target=read, args=(sys.stdin.buffer, calls), daemon=True).start()
    while True:
        function, arguments = calls.get()
        try:
            answer = pickle.dumps((function(*arguments), None))
        except Exception as error:
            answer = pickle.dumps((None, error))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def read(source: BinaryIO, calls: "SimpleQueue[tuple[Any, ...]]") -> None:
    """Queue calls. Exit when the pipe closes, even during a call, because nobody is left to read its result."""
    with suppress(EOFError, OSError):
        while True:
            calls.put(pickle.load(source))
    os._exit(0)


def limit_memory(num_bytes: int) -> None:
    """Limit this process's memory, and write no core dump if it exceeds the limit."""
    if sys.platform != "win32":
        import resource

        # Not RLIMIT_AS, because threads reserve far more address space than they use.
        for kind, most in ((resource.RLIMIT_DATA, num_bytes), (resource.RLIMIT_CORE, 0)):
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main()
