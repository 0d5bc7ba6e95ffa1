"""`mini-vllm`: the commands, put together."""

import typer

from bench.cli.main import bench_app
from cli.calibrate import calibrate
from cli.chat import chat
from cli.demo import demo
from cli.generate import generate
from cli.grade import grade
from cli.info import info
from cli.oracle import oracle
from cli.parity import parity
from cli.simulate import simulate
from cli.stages import stages
from cli.trace import trace
from mini_vllm.assembly.lineup import CHECKOUT
from serving.cli.serve import serve

app = typer.Typer(
    name="mini-vllm",
    help="A miniature of the vLLM V1 engine, made of six phases that you write.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, chat, generate, serve, trace, stages, simulate, calibrate, parity, oracle, grade, info):
    app.command()(command)
if (CHECKOUT / "classroom").is_dir():  # a student edition has no such folder
    from classroom.cli.collect import collect
    from classroom.cli.gradescope import gradescope
    from classroom.cli.judge import judge
    from classroom.cli.nbgrader import nbgrader
    from classroom.cli.one_file import one_file
    from classroom.cli.release import release

    app.command("one-file")(one_file)
    app.command()(release)
    app.command()(collect)
    app.command()(judge)
    app.command()(gradescope)
    app.command()(nbgrader)
app.add_typer(bench_app, name="bench")


@app.callback()
def main() -> None:
    pass
