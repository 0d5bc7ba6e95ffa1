"""Runs a lab's engine as a server: cells talk to it through OpenAI's client and see what it does."""

import sys
import time
import weakref
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from mini_vllm import EngineConfig, Lineup
from mini_vllm_labs.fresh.process import FreshError, pack
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.missing import broken_starter, code_that_ran, mark_for
from mini_vllm_labs.notebook.notice import Notice, Remark
from mini_vllm_labs.notebook.recorded_mark import CellMarks, marked_html, marked_text
from mini_vllm_labs.notebook.serving.at_once import Heard, Talk, ask_at_once
from mini_vllm_labs.notebook.serving.bill import ServedRun
from mini_vllm_labs.notebook.serving.metrics_table import Metrics
from mini_vllm_labs.notebook.serving.notices import CLIENT, SERVER, fetch, missing_extras, notice_of_error
from mini_vllm_labs.notebook.serving.replay import Exchange, RecordedServer, recorded
from mini_vllm_labs.runs.sandbox.channel import ChannelError
from mini_vllm_labs.runs.sandbox.explain import explain_death
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.runs.starter_status import describe

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")
MODEL = "mini-vllm"
SECONDS, START_SECONDS = 60.0, 120.0
COMMAND = (
    sys.executable,
    "-X",
    "faulthandler",
    "-m",
    "mini_vllm_labs.notebook.serving",
)  # reports the line where the process crashes


class LabServerProcess:
    """A server in a new process, which therefore runs the latest saved files. The server exits when its owner exits.

    Raises `FreshError` with a message for the learner if the server does not start.
    """

    def __init__(self, config: EngineConfig, lineup: Lineup) -> None:
        self._worker = WorkerProcess(COMMAND)
        self._end = weakref.finalize(self, WorkerProcess.close, self._worker)  # a bound method would keep `self` alive
        self._worker.deadline = time.monotonic() + START_SECONDS
        try:
            self._worker.send({"serve": pack((config, lineup))})
            message = self._worker.receive()
        except ChannelError as error:
            status = None if error.reason == "timeout" else self._worker.status
            self._worker.kill()
            trace = self._worker.output  # complete only once the process is dead
            self._end()
            raise FreshError(explain_death(status, trace, START_SECONDS, START_SECONDS)[1]) from None
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
        self._end()


class LabServer:
    """Serves the lab's lineup from a separate process that runs the latest saved files.

    If a task is unwritten, the answers are the reference's recorded answers, marked as recorded. If there is no server,
    every method returns a `Notice` with the reason.
    """

    def __init__(self, lab: Lab, config: EngineConfig) -> None:
        self.lineup, self.config = lab.lineup(), config
        self.recorded = mark_for(self.lineup)
        self.problem = broken_starter(self.lineup)
        self._marks = CellMarks()
        self._server: LabServerProcess | RecordedServer | None = None
        if self.problem is None:
            self.problem = missing_extras(CLIENT if self.recorded else SERVER)
        if self.problem is None:
            self._start()

    def _start(self) -> None:
        try:
            self._server = (RecordedServer if self.recorded else LabServerProcess)(self.config, self.lineup)
        except FreshError as error:
            title = "This needs a task that is not written yet" if error.unwritten else "The server did not start"
            self.problem = Notice(title, f"{error}\n\n{code_that_ran(self.lineup)}")

    @property
    def address(self) -> str:
        """The server's address, or empty if there is no server."""
        return self._server.address if self._server else ""

    @property
    def base_url(self) -> str:
        """The `base_url` for OpenAI's client."""
        return f"{self.address}/v1"

    def client(self) -> "OpenAI":
        """Return an OpenAI client for this server. The client never retries, because cells should see refusals."""
        from openai import OpenAI

        return OpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=SECONDS)

    def ask(self, function: "Callable[[OpenAI], T]") -> T | Notice:
        """Call `function` with a client; return its value, or a `Notice` if the engine or its server fails."""

        def ask() -> T:
            with self.client() as client:
                value = function(client)
            self._control("/notebook/settled")  # so that the next cell finds this request in the run
            return value

        return self._try(ask)

    def at_once(self, **talks: Talk) -> Heard | Notice:
        """Let several clients send requests, in order, before the engine's next step; return their answers.

        Each function receives a client and yields the pieces of its answer.
        """

        def listen() -> Heard:
            self.pause()
            answers, order = ask_at_once(
                talks, self.client, lambda: int(self._control("/notebook/arrived") or 0), self.resume
            )
            self._control("/notebook/settled")
            return Heard(answers, () if self.recorded else tuple(order), self.recorded)

        return self._try(listen)

    def metrics(self) -> Metrics | Notice:
        """Return the current `/metrics`."""
        return self._try(lambda: Metrics.of(fetch(self.address, "/metrics"), self.recorded))

    def run(self) -> ServedRun | Notice:
        """Return the engine's run so far, from its first step on."""

        def get() -> ServedRun:
            times = self._control("/notebook/times") or {}
            return ServedRun.of(fetch(self.address, "/notebook/run", json=True), times, self.recorded)

        return self._try(get)

    def pause(self, after_steps: int = 0) -> None:
        """Pause the engine after `after_steps` more steps, until `resume` is called. Requests may still arrive and
        finish."""
        self._control(f"/notebook/pause?after_steps={after_steps}", "POST")

    def resume(self) -> None:
        """Let the engine continue taking steps."""
        self._control("/notebook/resume", "POST")

    def close(self) -> None:
        """Stop the server. The server also stops when the notebook's kernel stops."""
        if self._server:
            self._server.close()

    def records(self) -> dict[str, str]:
        """Return the records of all exchanges with a live server, keyed by name."""
        noted = self._control("/notebook/exchanges") or []
        return recorded([Exchange(**each) for each in noted], self.config, self.lineup)

    def __repr__(self) -> str:
        if self.problem is not None:
            return str(self.problem)
        return marked_text("\n".join(f"{name}: {value}" for name, value in self._facts()), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        if self.problem is not None:
            return self.problem._repr_mimebundle_()
        cell = '<td style="text-align:left">'
        rows = "".join(f"<tr>{cell}{escape(name)}</td>{cell}{shown(value)}</td></tr>" for name, value in self._facts())
        page = f'<table style="max-width:720px"><tbody>{rows}</tbody></table>'
        return {"text/html": marked_html(page, self.recorded), "text/plain": repr(self)}

    def _facts(self) -> list[tuple[str, str]]:
        whose = "the reference, recorded" if self.recorded else describe(self.lineup)
        return [
            ("whose code answers", whose),
            ("OpenAI's API", self.base_url),
            ("its model", MODEL),
            ("its metrics", f"{self.address}/metrics"),
            ("its page", "that of a live server alone" if self.recorded else f"{self.address}/"),
        ]

    def _control(self, path: str, method: str = "GET") -> Any:
        """Call a live server's `/notebook` routes; return None if no server is live."""
        if isinstance(self._server, LabServerProcess) and self._server.is_running:
            return fetch(self.address, path, method, json=True)
        return None

    def _try(self, function: Callable[[], T]) -> T | Notice:
        """Return the function's value, or a `Notice` with the reason for its failure."""
        if self.problem is not None:
            return Remark("No server", "The cell that starts it says why.")
        try:
            value = function()
        except Exception as error:
            notice = notice_of_error(error, code_that_ran(self.lineup))
            if notice is None:
                raise
            return notice
        if not isinstance(value, Notice) and not getattr(value, "recorded", ""):
            self._marks.show(self.recorded)
        return value


def shown(value: str) -> str:
    text = escape(value)
    return f'<a href="{text}" target="_blank">{text}</a>' if value.startswith("http") else text
