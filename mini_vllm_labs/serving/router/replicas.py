"""Runs the replicas: processes that each contain an engine and its server."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_messages import OpenEngine, Watch
from mini_vllm.engine.engine_process_main import end_with_parent, lead_group
from mini_vllm.engine.engine_thread import StepClock
from mini_vllm.engine.process_group import kill_group
from mini_vllm_labs.serving.settings import ServerSettings, allow_many_connections

# seconds: the first limit is for the last events and the shutdown; the second is for a check
SECONDS_TO_END, SECONDS_TO_ANSWER = 10.0, 4.0
logger = logging.getLogger(__name__)


@dataclass
class Replica:
    """One engine with its server. `num_unfinished` counts the front end's requests that the replica has not finished.

    `problem` states why the replica did not accept requests at the last check, or is empty. `notice` is the replica's
    latest notice.
    """

    index: int
    process: BaseProcess
    address: str
    num_unfinished: int = 0
    problem: str = ""
    notice: str = ""
    num_silent: int = 0
    has_ended: bool = False

    @property
    def is_alive(self) -> bool:
        if not self.has_ended and not self.process.is_alive():
            self.has_ended = True
            kill_group(self.process)  # kill the group only once, because its number may be reused
        return not self.has_ended

    def note_silence(self) -> str:
        """Count a late answer, and kill the process after the second in a row. Returns the problem.

        After the first late answer, the process only prints its stack, because a machine that has just woken up may be
        late once.
        """
        self.num_silent += 1
        if self.num_silent < 2:
            self.notice = (
                f"its process has not answered for {SECONDS_TO_ANSWER:g} seconds; the terminal shows its stack"
            )
            logger.warning("replica %d: %s", self.index, self.notice)
            with suppress(AttributeError, OSError):  # fails on Windows, or if the process no longer exists
                os.kill(self.process.pid or 0, signal.SIGUSR1)
            return self.problem
        kill_group(self.process)
        return f"its process has not answered for {2 * SECONDS_TO_ANSWER:g} seconds"


class Replicas:
    """Starts and ends the processes. Raises `RuntimeError` if a process dies before it is ready; its error is on
    stderr."""

    def __init__(
        self, open_engine: OpenEngine, settings: ServerSettings, size: int, watch: Watch | None = None
    ) -> None:
        self.settings = settings
        self.is_shutting_down = False
        # a forked child could inherit locks that are held by threads it does not have
        spawn = multiprocessing.get_context("spawn")
        own = replace(settings, host="127.0.0.1", port=0)
        num_threads = max(1, (os.cpu_count() or 1) // size)
        starting = []
        for _ in range(size):
            address, theirs = spawn.Pipe(duplex=False)
            arguments = open_engine, watch, own, theirs, num_threads
            process = spawn.Process(target=run_replica, args=arguments, daemon=True)
            process.start()
            theirs.close()  # otherwise, `recv` would wait forever for a dead replica
            starting.append((process, address))  # all replicas load in parallel, so do not wait yet
        try:
            self.all = [Replica(index, process, address.recv()) for index, (process, address) in enumerate(starting)]
        except EOFError:
            raise RuntimeError("a replica exited before it could serve requests: its error is shown above") from None

    @property
    def usable(self) -> list[Replica]:
        return [replica for replica in self.alive if not replica.problem]

    @property
    def problems(self) -> str:
        """The problems and notices of the replicas at the last check, or empty if there are none."""
        words = {replica.index: replica.problem or replica.notice for replica in self.all}
        return "; ".join(f"replica {index}: {said}" for index, said in words.items() if said)

    @property
    def alive(self) -> list[Replica]:
        return [replica for replica in self.all if replica.is_alive]

    async def shutdown(self, timeout: float) -> None:
        """Send the replicas SIGTERM, and kill any still alive `SECONDS_TO_END` after `timeout`, or immediately if it is
        0.

        Until then, each replica lets its requests finish within the limit in its settings.
        """
        self.is_shutting_down = True
        for replica in self.alive:
            replica.process.terminate()
            if timeout == 0:
                kill_group(replica.process)
        deadline = asyncio.get_running_loop().time() + timeout + SECONDS_TO_END
        while self.alive and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for replica in self.alive:
            kill_group(replica.process)


def run_replica(
    open_engine: OpenEngine,
    watch: Watch | None,
    settings: ServerSettings,
    address: "Connection[str, str]",
    num_threads: int,
) -> None:
    """Serve one engine in this process and report its address. The process exits when the front end's process does."""
    lead_group()
    threading.Thread(target=end_with_parent, args=(StepClock(),), name="mini-vllm-parent", daemon=True).start()
    # Ctrl-C reaches every process in a terminal, but only the front end decides when the replicas stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", str(num_threads))  # torch reads this only once, on import

    from mini_vllm_labs.serving.server import address_of, bound_socket, engine_server

    allow_many_connections()
    listener = bound_socket(settings)
    server = engine_server(AsyncLLM(open_engine(), watch), settings)
    address.send(address_of(listener))
    address.close()
    server.run([listener])
    sys.stdout.flush()
    os._exit(0)  # Python would wait for threads started by a learner's code
