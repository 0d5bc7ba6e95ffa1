"""The same requests without a server: `LLM.generate` in a process of its own."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.backend import BackendSettings
from bench.peer_process import PeerError
from bench.serve.text_requests import TextRequest


@dataclass(frozen=True, slots=True)
class Offline:
    """The texts in order, the number of output tokens of each, and the seconds of all together."""

    texts: list[str]
    num_output_tokens: list[int]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return sum(self.num_output_tokens) / self.seconds


class OfflineProcess:
    """Answers requests, all at once and without HTTP; it waits, using no CPU, while a server is measured.

    `ignore_eos` runs every answer to its full length.
    """

    def __init__(self, settings: BackendSettings, *, ignore_eos: bool) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=answer_offline, args=(theirs, settings, ignore_eos), daemon=True)
        self._process.start()
        theirs.close()
        self._receive()

    def answer(self, requests: Sequence[TextRequest]) -> Offline:
        """Return the answers to all requests. Raises `PeerError` if the process has ended."""
        self._connection.send(list(requests))
        answered = self._receive()
        assert isinstance(answered, Offline)
        return answered

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> object:
        try:
            return self._connection.recv()
        except EOFError as error:
            self._process.join(10)
            raise PeerError(f"the offline engine exited early, with code {self._process.exitcode}") from error


def answer_offline(connection: Connection, settings: BackendSettings, ignore_eos: bool) -> None:
    """Answer lists of requests until the other end closes. Runs in the process of `OfflineProcess`."""
    os.environ.update(settings.environment())  # before torch is imported, as in a server

    from mini_vllm.assembly.lineup import parse_lineup
    from mini_vllm.llm import LLM
    from mini_vllm.sampling_params import SamplingParams

    llm = LLM(settings.model or None, settings.engine_config(), parse_lineup(settings.lineup))
    connection.send("ready")
    while True:
        try:
            requests: list[TextRequest] = connection.recv()
        except EOFError:
            return
        params = [SamplingParams(max_tokens=request.max_tokens, ignore_eos=ignore_eos) for request in requests]
        start = time.perf_counter()
        outputs = [output.outputs[0] for output in llm.generate([request.prompt for request in requests], params)]
        seconds = time.perf_counter() - start
        connection.send(Offline([one.text for one in outputs], [len(one.token_ids) for one in outputs], seconds))
