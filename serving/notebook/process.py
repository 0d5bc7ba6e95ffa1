"""The process of a live server, as the notebook's kernel sees it."""

import sys
import time
import weakref

from course.fresh.process import FreshError, pack
from course.sandbox.channel import ChannelError
from course.sandbox.explain import explain_death
from course.sandbox.worker import Worker
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig

COMMAND = (sys.executable, "-X", "faulthandler", "-m", "serving.notebook")
SECONDS = 120.0


class ServerProcess:
    """A server in a new process, so that the files as last saved are what answers. Ends with its owner.

    Raises `FreshError` with a message for the learner if it does not start.
    """

    def __init__(self, config: EngineConfig, lineup: Lineup) -> None:
        self._worker = Worker(COMMAND)
        self._end = weakref.finalize(self, Worker.close, self._worker)
        self._worker.deadline = time.monotonic() + SECONDS
        try:
            self._worker.send({"serve": pack((config, lineup))})
            message = self._worker.receive()
        except ChannelError as error:
            status = None if error.reason == "timeout" else self._worker.status
            self._worker.kill()
            trace = self._worker.output
            self._end()
            raise FreshError(explain_death(status, trace, SECONDS)[1]) from None
        except BaseException:
            self._end()
            raise
        if "problem" in message:
            self._end()
            raise FreshError(str(message["problem"]), unwritten=bool(message["unwritten"]))
        self.address = str(message["address"])

    @property
    def is_running(self) -> bool:
        return self._worker.is_running

    def close(self) -> None:
        """End the process."""
        self._end()
