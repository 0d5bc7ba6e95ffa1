"""The main function of the children of `GrammarProcesses`."""

import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import suppress
from queue import SimpleQueue
from typing import BinaryIO

from mini_vllm.engine import grammar_source  # noqa: F401  # loaded before the first call


def main() -> None:
    """Answer the calls from the standard input until it closes. The argument is the limit of memory, in MiB."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal
    limit_memory(int(sys.argv[1]) << 20)
    source, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output that a learner's code prints must not mix with the answers
    calls = SimpleQueue[bytes]()
    threading.Thread(target=read, args=(source, calls), daemon=True).start()
    while True:
        answer = answer_to(calls.get())
        pickle.dump(answer, answers)
        answers.flush()


def read(source: BinaryIO, calls: "SimpleQueue[bytes]") -> None:
    """Queue calls. Exit at the end of the pipe, even during a call: nobody is left for its answer."""
    with suppress(EOFError, OSError):
        while True:
            calls.put(pickle.load(source))
    os._exit(0)


def answer_to(content: bytes) -> bytes:
    """Make a call and return its pickled result and error."""
    try:
        function, arguments = pickle.loads(content)
        return pickle.dumps((function(*arguments), None))
    except Exception as error:
        error.__dict__["remote_frames"] = list(traceback.extract_tb(error.__traceback__))  # pickle drops them
        return pickle.dumps((None, error))


def limit_memory(num_bytes: int) -> None:
    """Limit this process's data, and write no core when it needs more."""
    if sys.platform != "win32":
        import resource

        # Not RLIMIT_AS: threads reserve far more address space than they use.
        for kind, most in ((resource.RLIMIT_DATA, num_bytes), (resource.RLIMIT_CORE, 0)):
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main()
