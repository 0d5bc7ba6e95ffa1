"""Calls `mini-vllm tutor` over stdio with the MCP SDK's own client, in a student edition. (Extra `tutor`.)"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import compose, leaks, secret_lines, write
from mini_vllm_labs.runs.starter_status import starter_path
from tests.judge.files import mutant

WITHOUT_NETWORK = """
import os, sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo"):
        os._exit(9)
sys.addaudithook(refuse)
from mini_vllm_labs.cli.main import app
app(["tutor"])
"""
QUESTIONS: list[tuple[str, dict[str, object], str]] = [
    ("failing_case", {"task": "1.2"}, "Hint: `make_room` itself removes the victim from `running`."),
    ("failing_case", {"task": "1.1"}, "Task 1.1 passes."),
    ("failing_case", {"task": "2.1"}, "Task 2.1 is not written yet."),
    ("failing_case", {"task": "9.9"}, "unknown task 9.9"),
    ("rules", {"task": "1.2"}, "### Task 1.2 `schedule_step`, RUNNING"),
    ("hint", {"task": "1.2"}, "Hint 1 of 4:"),
    ("hint", {"task": "1.2"}, "The starter has not changed since the last hint."),
    ("trace", {"requests": 3, "request": "r1"}, "it gets one token in each step"),
    ("trace", {"requests": 3, "steps": "0-1"}, "step 0 "),
    ("trace", {"file": "../outside.jsonl"}, "is outside the learner's folder"),
    ("trace", {"file": "/etc/passwd"}, "is outside the learner's folder"),
    ("trace", {"file": "linked.jsonl"}, "is outside the learner's folder"),
    ("trace", {"file": "labs/conftest.py"}, "is not a trace"),
]


def test_an_assistant_gets_words_and_no_solution(tmp_path: Path) -> None:
    folder = tmp_path / "edition"
    write(compose(), folder)
    starter_path(1, folder).write_text(mutant(1, "iterates over the list that victims leave"), encoding="utf-8")
    (tmp_path / "outside.jsonl").write_text("{}\n")
    (folder / "linked.jsonl").symlink_to(tmp_path / "outside.jsonl")
    tools, answers = asyncio.run(asked(folder))
    assert tools == {"failing_case", "rules", "hint", "trace"}
    for (tool, arguments, words), answer in zip(QUESTIONS, answers, strict=True):
        assert words in answer, (tool, arguments, answer)
    assert leaks({"answers": "\n".join(answers).encode()}, secret_lines(CHECKOUT)) == []


async def asked(folder: Path) -> tuple[set[str], list[str]]:
    """Return the names of the server's tools and its answers to the questions."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    server = StdioServerParameters(command=sys.executable, args=["-c", WITHOUT_NETWORK], cwd=folder, env=environment)
    async with Client(server) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        return tools, [text_of(await client.call_tool(tool, arguments)) for tool, arguments, _ in QUESTIONS]


def text_of(result: Any) -> str:
    (block,) = result.content
    return str(block.text)
