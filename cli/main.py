"""`mini-vllm`: its commands, for learners and for teachers."""

from pathlib import Path

from bench.cli.main import bench_app
from course.terminal.lazy_commands import lazy_app

COMMANDS = [
    ("demo", "cli.demo:demo", "Watch the engine serve several prompts together, step by step."),
    ("chat", "cli.chat:chat", "Talk to the model; each turn sends the whole conversation again."),
    ("generate", "cli.generate:generate", "Generate text from prompts."),
    ("serve", "serving.cli.serve:serve", "Serve the engine by OpenAI's API."),
    ("trace", "cli.trace:trace", "Print the decisions of every step of a small workload, or of a trace file."),
    ("stages", "cli.stages:stages", "Show what each phase gains: one workload on phases 1, 1-2, ... 1-5."),
    ("simulate", "cli.simulate:simulate", "Serve a named workload with the real scheduler in simulated time."),
    (
        "arena",
        "cli.arena:arena",
        "Run scheduling policies on the same requests and show which requests pay.",
    ),
    ("league", "cli.league:league", "Run the MyPolicy of each file on the same requests, and print a table."),
    ("claims", "cli.arena:claims", "Measure what papers claim of scheduling policies, on simulated requests."),
    ("incidents", "cli.incidents:play", "Ten incidents in simulated time: which knob would you turn?"),
    ("calibrate", "cli.calibrate:calibrate", "Fit the cost model of `mini-vllm simulate` to this machine."),
    ("parity", "cli.parity:parity", "Replay recorded vLLM decisions and compare, block ids included."),
    ("oracle", "cli.oracle:oracle", "Show the first step in which your decisions differ from the right ones."),
    ("lab", "cli.lab:lab", "Open the notebooks in JupyterLab."),
    ("grade", "cli.grade:grade", "Grade your starters, whatever the value of LAB_IMPL."),
    ("hint", "cli.hint:hint", "Show the next step of a task's hint."),
    ("watch", "cli.watch:watch", "Grade on every save, and show the first failing task."),
    ("approaches", "cli.hint:approaches", "Show other fair ways to write a task that you have passed."),
    ("share", "cli.share:share", "Write a run of your engine as one HTML file to show to others."),
    ("bring", "cli.bring:bring", "Put the starters of a zip from the browser's lab into this checkout."),
    ("cards", "cli.cards:cards", "Print questions and answers by phase, or write them for Anki."),
    ("info", "cli.info:info", "Check the environment, or a model's folder, and name the fix for each problem."),
]
FOR_TEACHERS = [
    ("one-file", "classroom.cli.release:one_file", "Write the reference engine as one file that runs by itself."),
    ("release", "classroom.cli.release:release", "For teachers: write the student edition."),
    ("collect", "classroom.cli.collect:collect", "For teachers: give each learner of a bulk download a folder."),
    ("judge", "classroom.cli.judge:judge", "For teachers: grade submissions on secret situations."),
    ("gradescope", "classroom.cli.gradescope:gradescope", "For teachers: write a Gradescope autograder."),
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
