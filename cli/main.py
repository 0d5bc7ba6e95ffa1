"""`mini-vllm`: the commands, put together."""

from pathlib import Path

from bench.cli.main import bench_app
from course.terminal.lazy_commands import LazyCommand, lazy_app

COMMANDS = [
    LazyCommand("demo", "cli.demo:demo", "Watch the engine serve several prompts together, step by step."),
    LazyCommand(
        "chat",
        "cli.chat:chat",
        "Talk to the model. The whole conversation is sent again with each turn: watch the prefix cache find it.",
    ),
    LazyCommand(
        "generate",
        "cli.generate:generate",
        "Generate text from prompts. A single output is streamed; several are printed when all are finished.",
    ),
    LazyCommand(
        "serve",
        "serving.cli.serve:serve",
        "Serve the engine by OpenAI's API. Ctrl-C or SIGTERM lets running requests finish.",
    ),
    LazyCommand(
        "trace",
        "cli.trace:trace",
        "Print the decisions of every step: of a small workload on the fake model, without torch, or of a trace file.",
    ),
    LazyCommand(
        "stages",
        "cli.stages:stages",
        "Run one workload on phases 1, 1-2, ... 1-5 and show what each phase gains, in simulated time.",
    ),
    LazyCommand(
        "simulate",
        "cli.simulate:simulate",
        "Serve a named workload with the real scheduler in simulated time; print latencies, goodput and preemptions.",
    ),
    LazyCommand(
        "calibrate",
        "cli.calibrate:calibrate",
        "Measure the real engine's steps on this machine, and fit the cost model of `mini-vllm simulate` to them.",
    ),
    LazyCommand("parity", "cli.parity:parity", "Replay recorded vLLM decisions and compare, block ids included."),
    LazyCommand(
        "oracle",
        "cli.oracle:oracle",
        "Show the first step in which your decisions differ from the right ones, and the phase that causes it.",
    ),
    LazyCommand(
        "grade",
        "cli.grade:grade",
        "Grade your starters, whatever the value of LAB_IMPL: points per task, alone and together.",
    ),
    LazyCommand(
        "info",
        "cli.info:info",
        "Check the environment and name the fix for each problem. Exit code 1 if something required is wrong.",
    ),
]
FOR_TEACHERS = [
    LazyCommand(
        "one-file",
        "classroom.cli.one_file:one_file",
        "Write the reference engine, phases 1 to 6 with what they need, as one file that runs by itself.",
    ),
    LazyCommand(
        "release",
        "classroom.cli.release:release",
        "For teachers: write the student edition, without solutions, their tests, and history.",
    ),
    LazyCommand(
        "collect",
        "classroom.cli.collect:collect",
        "For teachers: give each learner of a bulk download a folder, and write the roster with their ids.",
    ),
    LazyCommand(
        "judge",
        "classroom.cli.judge:judge",
        "For teachers: grade submissions on secret situations, each phase alone, in jailed workers.",
    ),
    LazyCommand(
        "gradescope",
        "classroom.cli.gradescope:gradescope",
        "For teachers: write a Gradescope autograder. It holds the solutions and the seed: upload it, and keep it.",
    ),
    LazyCommand(
        "nbgrader",
        "classroom.cli.nbgrader:nbgrader",
        "For teachers: write a course folder for nbgrader, an assignment per phase, graded by the judge.",
    ),
]
"""A student edition has none of these."""
HAS_CLASSROOM = (Path(__file__).parents[1] / "classroom").is_dir()

app = lazy_app(
    COMMANDS + FOR_TEACHERS * HAS_CLASSROOM,
    name="mini-vllm",
    help="A miniature of the vLLM V1 engine, made of six phases that you write.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")
