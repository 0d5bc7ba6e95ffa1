"""`mini-vllm tutor` is an MCP server that gives a learner's assistant the course's own texts, but no solutions.

The server communicates over stdio and opens no network connections. The server returns rules, failing cases, hints and
reasons, so that the assistant can explain them.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import install_command
from mini_vllm_labs.cli.hint import all_hints, keep_seen, seen
from mini_vllm_labs.grading.approaches import task_named
from mini_vllm_labs.grading.grader import grade_tests
from mini_vllm_labs.grading.history import note_grades
from mini_vllm_labs.pictures.terminal.console import friendly
from mini_vllm_labs.runs.starter_status import starter_path

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = """You are the tutor of somebody who builds an LLM serving engine in mini-vLLM Labs. AGENTS.md in their
folder has the rules: explain and ask, and never write, complete or dictate the body of a task. Ask what they expect
before you call `failing_case`. Call `rules` and `trace` as often as you like, and `hint` only when they are stuck."""
SECTION = re.compile(r"^(?=##+ )", re.MULTILINE)
COMMENT = re.compile(r" *<!--.*?-->", re.DOTALL)
TRACE_ENDINGS = (".jsonl", ".jsonl.gz")
TRACE_SECONDS = 60.0
MAX_CHARACTERS = 20_000


@friendly
def tutor() -> None:
    """Give your assistant failing cases, rules, hints and reasons, but no answers.

    This MCP server uses stdio: configure it in your assistant as the command `mini-vllm tutor`, run in this folder.
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError:
        raise ValueError(f"mini-vllm tutor needs the MCP SDK: {install_command('tutor')}") from None
    make_server(Tutor()).run("stdio")


def make_server(tutor: "Tutor") -> "MCPServer":
    """Return the server whose tools are the tutor's methods."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("mini-vllm", instructions=INSTRUCTIONS, log_level="WARNING")

    def told(tool: Callable[..., str]) -> Callable[..., str]:
        """Let the assistant read a tool's `ValueError`; the SDK hides the text of all exceptions except its own."""

        @wraps(tool)
        def guarded(**arguments: object) -> str:
            try:
                return tool(**arguments)
            except ValueError as error:
                raise ToolError(str(error)) from None

        return guarded

    for tool in (tutor.failing_case, tutor.rules, tutor.hint, tutor.trace):
        server.tool(structured_output=False)(told(tool))
    return server


class Tutor:
    """The information that an assistant may get about the starters of one folder.

    On failure, every method raises `ValueError` with a message meant for people.
    """

    def __init__(self, folder: Path = CHECKOUT) -> None:
        self._folder = folder.resolve()
        self._tried: dict[str, str] = {}

    def failing_case(self, task: str) -> str:
        """Grade a task such as "1.2", and return its first failing case: the rule, the situation and both answers."""
        phase, number = task_named(task)
        grade = grade_tests(replace(phase, tasks=[phase.tasks[number - 1]]), threading.Event())
        note_grades([grade])
        if grade.error:
            return f"The file of phase {phase.number} cannot be graded: {grade.error}"
        (found,) = grade.tasks
        if found.first_failure is None:
            return f"Task {task} passes. Let the learner explain why; `mini-vllm approaches {task}` shows other ways."
        if found.status == "not started":
            return f"Task {task} is not written yet. Begin with `rules`, and with what the learner expects."
        num_right = sum(test.outcome == "passed" for test in found.tests)
        heading = f"{num_right} of {len(found.tests)} tests of task {task} pass. The first that fails:"
        return f"{heading}\n\n{found.first_failure.message}"[:MAX_CHARACTERS]

    def rules(self, task: str) -> str:
        """Return the handout's rules for a task such as "1.2", and the text of the task."""
        phase, number = task_named(task)
        text = starter_path(phase.number).with_name("README.md").read_text(encoding="utf-8")
        headings = ("## The rules", f"### Task {phase.number}.{number} ")
        parts = [part.strip() for part in SECTION.split(COMMENT.sub("", text)) if part.startswith(headings)]
        return "\n\n".join(parts)

    def hint(self, task: str) -> str:
        """Return the next hint for a task such as "1.2". The next hint is available only after the learner has tried
        the previous one."""
        ladder = all_hints().get(task)
        if ladder is None:
            raise ValueError(f"there are no hints for task {task}")
        phase, _ = task_named(task)
        steps = ladder[:-1]  # the last hint is almost a recipe
        num_seen, now = min(seen().get(task, 0), len(steps)), digest_of(starter_path(phase.number))
        if num_seen and self._tried.get(task) == now:
            return f"The starter has not changed since the last hint. It was:\n\n{steps[num_seen - 1][1]}"
        if num_seen == len(steps):
            return f"That was all before the recipe. Only the learner asks for that: mini-vllm hint {task}"
        self._tried[task] = now
        keep_seen(task, num_seen + 1)
        return f"Hint {num_seen + 1} of {len(ladder)}:\n\n{steps[num_seen][1]}"

    def trace(self, seed: int = 0, requests: int = 8, steps: str = "", request: str = "", file: str = "") -> str:
        """Run the learner's phases, and return what limited each request in each step.

        `steps`, such as "3-7", limits the answer to these steps; `request`, such as "r3", limits it to that request's
        life. `file` reads a trace in the learner's folder instead of running the phases.
        """
        options = ["--why", f"--seed={seed}", f"--requests={requests}"]
        options += [f"--steps={steps}"] if steps else []
        options += [f"--request={request}"] if request else []
        options += [f"--read={self.inside(file)}"] if file else []
        try:
            done = subprocess.run(
                [sys.executable, "-m", "mini_vllm_labs.cli", "trace", *options],
                cwd=self._folder,
                env=os.environ | {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,  # otherwise, the child could read the protocol's messages
                capture_output=True,
                text=True,
                timeout=TRACE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"the run took longer than {TRACE_SECONDS:g} seconds") from None
        return (done.stdout + done.stderr)[:MAX_CHARACTERS]

    def inside(self, path: str) -> Path:
        """Return the path to a trace inside the learner's folder. Raises `ValueError` for any other path."""
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise ValueError(f"{path} is outside the learner's folder, {self._folder}")
        if not found.name.endswith(TRACE_ENDINGS) or not found.is_file():
            raise ValueError(f"{path} is not a trace: name a file that ends in {' or '.join(TRACE_ENDINGS)}")
        return found


def digest_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
