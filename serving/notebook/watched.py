"""What the notebook wants to know of an engine beyond its trace: the times of each request, and when to pause."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from course.notebook.record_codec import to_json
from course.traces.recording import Recording
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver, StepResult
from mini_vllm.outputs import RequestMetrics
from serving.notebook.exchange import Exchange


class Watched(StepObserver):
    """Keeps the metrics of every request, and pauses the engine after some steps. On the engine's thread."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.exchanges: list[Exchange] = []
        self.metrics: dict[str, RequestMetrics] = {}
        self._steps_to_pause = 0
        self._llm: AsyncLLM | None = None
        engine.add_observer(self)

    def pause_after(self, num_steps: int, llm: AsyncLLM) -> None:
        """Pause after so many more steps, at once if they are 0."""
        self._steps_to_pause, self._llm = num_steps, llm
        if num_steps:
            llm.resume()
        else:
            llm.pause()

    def request_added(self, request_id: str) -> None:
        self.metrics[request_id] = self.engine.processor.states[request_id].metrics

    def after_update(self, result: StepResult) -> None:
        if self._steps_to_pause:
            self._steps_to_pause -= 1
            if not self._steps_to_pause and self._llm:
                self._llm.pause()

    def run(self, engine: LLMEngine) -> dict[str, Any]:
        """Return the trace so far, and the requests that have not ended.

        What the recorder sorts by name is sorted by arrival instead: the names are random.
        """
        recording = Recording.of(engine)
        place = {request_id: number for number, request_id in enumerate(self.metrics)}
        steps = [
            record | {"finished_sent": sorted(record["finished_sent"], key=place.__getitem__)}
            for record in recording.steps
        ]
        return {"recording": to_json(replace(recording, steps=steps)), "unfinished": list(engine.processor.states)}

    def times(self, engine: LLMEngine) -> dict[str, list[float]]:
        """Return the seconds in which each request was queued, computed its prompt, and got the rest of its tokens."""
        return {request_id: phases(metrics) for request_id, metrics in self.metrics.items()}


def phases(metrics: RequestMetrics) -> list[float]:
    """Return the seconds of the three phases that a request has been through."""
    moments = [metrics.arrival_time, metrics.first_scheduled_time, metrics.first_token_time, metrics.last_token_time]
    known = [moment for moment in moments if moment is not None]
    return [after - before for before, after in pairwise(known)]
