"""From the engine's steps to one request's reader, which may be slow. (vLLM: `v1/engine/output_processor.py`.)"""

import asyncio

from mini_vllm.outputs import RequestOutput


class OutputCollector:
    """The newest output of one request, until it is read. (vLLM: `RequestOutputCollector`.)

    An output that comes before the previous one is read is merged with it. So a reader holds one output, however slow
    it is, and the engine never waits for it.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._output: RequestOutput | None = None
        self._error: Exception | None = None
        self._is_there = asyncio.Event()

    def put(self, output: RequestOutput) -> None:
        """Called on the reader's loop."""
        if self._output is not None:
            output.new_text = self._output.new_text + output.new_text
            output.num_new_tokens += self._output.num_new_tokens
        self._output = output
        self._is_there.set()

    def fail(self, error: Exception) -> None:
        """Let the reader's `get` raise, after an output that has already come. Called on the reader's loop."""
        self._error = error
        self._is_there.set()

    async def get(self) -> RequestOutput:
        """Wait for an output and take it."""
        await self._is_there.wait()
        output, self._output = self._output, None
        if output is None:
            assert self._error is not None
            raise self._error
        if self._error is None:
            self._is_there.clear()
        return output
