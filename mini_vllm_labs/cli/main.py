"""`mini-vllm` lists its commands, grouped by the user's goal."""

from pathlib import Path

from mini_vllm_labs.cli.bench.main import bench_app
from mini_vllm_labs.pictures.terminal.lazy_commands import lazy_app

LEARN = [
    ("demo", "demo:demo", "Watch the engine serve several prompts together, step by step."),
    ("place", "place:place", "Answer twelve questions to find out which phase to start with."),
    ("watch", "watch:watch", "Grade on every save, and show the first failing task."),
    ("grade", "grade:grade", "Grade your starters, regardless of LAB_IMPL."),
    ("grade-tests", "grade_tests:grade_tests", "Grade your test file on known mistakes in a phase."),
    ("hint", "hint:hint", "Show the next step of a task's hint."),
    ("approaches", "hint:approaches", "Show other good ways to solve a task that you have passed."),
    ("tutor", "tutor:tutor", "Give your assistant failing cases, rules, hints and reasons, but no answers."),
    ("viva", "viva:viva", "Answer eight questions about your own files and your own run, in ten minutes."),
    ("lab", "lab:lab", "Open the notebooks in JupyterLab."),
    ("cards", "cards:cards", "Print questions and answers by phase, or write them for Anki."),
    ("incidents", "incidents:play", "Work through ten incidents in simulated time: which knob would you turn?"),
    ("bring", "bring:bring", "Put the starters from a zip of the browser's lab into this checkout."),
    ("info", "info:info", "Check the environment, or a model's folder, and print the fix for each problem."),
]
LOOK = [
    ("trace", "trace:trace", "Print the decisions of every step of a small workload, or of a trace file."),
    ("stages", "stages:stages", "Show the gain from each phase: one workload on phases 1, 1-2, ... 1-5."),
    ("oracle", "oracle:oracle", "Show the first step in which your decisions differ from the right ones."),
    (
        "parity",
        "parity:parity",
        "Replay recorded decisions of vLLM 0.13.0 and 0.33.0 and compare them, including block ids.",
    ),
    (
        "conformance",
        "conformance:conformance",
        "Compare an engine in any language with the decisions of vLLM 0.13.0 and 0.33.0.",
    ),
    (
        "inside-vllm",
        "inside_vllm:inside_vllm",
        "Generate text with a complete vLLM that runs on your scheduler, without a GPU.",
    ),
    ("share", "share:share", "Write a run of your engine as one HTML file to show to others."),
]
MEASURE = [
    ("simulate", "simulate:simulate", "Serve a named workload with the real scheduler in simulated time."),
    ("arena", "arena:arena", "Run scheduling policies on the same requests and show which requests lose."),
    ("league", "league:league", "Run each file's MyPolicy on the same requests, and print a table."),
    ("claims", "arena:claims", "Measure what papers claim about scheduling policies, on simulated requests."),
    ("calibrate", "calibrate:calibrate", "Fit the cost model of `mini-vllm simulate` to this machine."),
]
SERVE = [
    ("generate", "generate:generate", "Generate text from prompts."),
    ("chat", "chat:chat", "Talk to the model; each turn sends the whole conversation again."),
    ("serve", "serving.serve:serve", "Serve the engine through an OpenAI-compatible API."),
]
TEACH = [
    ("one-file", "classroom.release:one_file", "Write the reference engine as one file that runs on its own."),
    ("release", "classroom.release:release", "Write the student edition."),
    ("collect", "classroom.collect:collect", "Sort a bulk download into one folder per learner."),
    ("judge", "classroom.judge:judge", "Grade submissions on secret situations."),
    ("class-report", "classroom.class_report:class_report", "Show where the learners in a class stop."),
    ("decks", "modules:decks", "Write eight slide decks, each a single HTML file that needs no network."),
    (
        "exam",
        "modules:exam",
        "Write an exam based on known mistakes in a phase, and write its answers to another file.",
    ),
    ("site", "modules:site", "Build the website: the pages, and the lab in a browser tab."),
    ("gradescope", "classroom.gradescope:gradescope", "Write a Gradescope autograder."),
]
HAS_CLASSROOM = (Path(__file__).parents[1] / "classroom").is_dir()  # a student edition does not have this folder
COMMANDS = {"Learn": LEARN, "Look": LOOK, "Measure": MEASURE, "Serve": SERVE}
if HAS_CLASSROOM:
    COMMANDS["Teach"] = TEACH

app = lazy_app(
    "mini_vllm_labs.cli",
    COMMANDS,
    name="mini-vllm",
    help="A miniature of the vLLM V1 engine, made of six phases that you write.",
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench", rich_help_panel="Measure")
