"""`mini-vllm`: its commands, for learners and for teachers."""

from pathlib import Path

from mini_vllm_labs.cli.bench.main import bench_app
from mini_vllm_labs.pictures.terminal.lazy_commands import lazy_app

COMMANDS = [
    ("demo", "mini_vllm_labs.cli.demo:demo", "Watch the engine serve several prompts together, step by step."),
    ("chat", "mini_vllm_labs.cli.chat:chat", "Talk to the model; each turn sends the whole conversation again."),
    ("generate", "mini_vllm_labs.cli.generate:generate", "Generate text from prompts."),
    ("serve", "mini_vllm_labs.cli.serving.serve:serve", "Serve the engine by OpenAI's API."),
    (
        "trace",
        "mini_vllm_labs.cli.trace:trace",
        "Print the decisions of every step of a small workload, or of a trace file.",
    ),
    (
        "stages",
        "mini_vllm_labs.cli.stages:stages",
        "Show what each phase gains: one workload on phases 1, 1-2, ... 1-5.",
    ),
    (
        "simulate",
        "mini_vllm_labs.cli.simulate:simulate",
        "Serve a named workload with the real scheduler in simulated time.",
    ),
    (
        "arena",
        "mini_vllm_labs.cli.arena:arena",
        "Run scheduling policies on the same requests and show which requests pay.",
    ),
    (
        "league",
        "mini_vllm_labs.cli.league:league",
        "Run the MyPolicy of each file on the same requests, and print a table.",
    ),
    (
        "claims",
        "mini_vllm_labs.cli.arena:claims",
        "Measure what papers claim of scheduling policies, on simulated requests.",
    ),
    ("incidents", "mini_vllm_labs.cli.incidents:play", "Ten incidents in simulated time: which knob would you turn?"),
    (
        "calibrate",
        "mini_vllm_labs.cli.calibrate:calibrate",
        "Fit the cost model of `mini-vllm simulate` to this machine.",
    ),
    ("parity", "mini_vllm_labs.cli.parity:parity", "Replay recorded vLLM decisions and compare, block ids included."),
    (
        "oracle",
        "mini_vllm_labs.cli.oracle:oracle",
        "Show the first step in which your decisions differ from the right ones.",
    ),
    ("lab", "mini_vllm_labs.cli.lab:lab", "Open the notebooks in JupyterLab."),
    ("grade", "mini_vllm_labs.cli.grade:grade", "Grade your starters, whatever the value of LAB_IMPL."),
    ("hint", "mini_vllm_labs.cli.hint:hint", "Show the next step of a task's hint."),
    ("watch", "mini_vllm_labs.cli.watch:watch", "Grade on every save, and show the first failing task."),
    ("approaches", "mini_vllm_labs.cli.hint:approaches", "Show other fair ways to write a task that you have passed."),
    ("share", "mini_vllm_labs.cli.share:share", "Write a run of your engine as one HTML file to show to others."),
    ("bring", "mini_vllm_labs.cli.bring:bring", "Put the starters of a zip from the browser's lab into this checkout."),
    ("cards", "mini_vllm_labs.cli.cards:cards", "Print questions and answers by phase, or write them for Anki."),
    (
        "info",
        "mini_vllm_labs.cli.info:info",
        "Check the environment, or a model's folder, and name the fix for each problem.",
    ),
]
FOR_TEACHERS = [
    (
        "one-file",
        "mini_vllm_labs.cli.classroom.release:one_file",
        "Write the reference engine as one file that runs by itself.",
    ),
    ("release", "mini_vllm_labs.cli.classroom.release:release", "For teachers: write the student edition."),
    (
        "collect",
        "mini_vllm_labs.cli.classroom.collect:collect",
        "For teachers: give each learner of a bulk download a folder.",
    ),
    ("judge", "mini_vllm_labs.cli.classroom.judge:judge", "For teachers: grade submissions on secret situations."),
    (
        "gradescope",
        "mini_vllm_labs.cli.classroom.gradescope:gradescope",
        "For teachers: write a Gradescope autograder.",
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
