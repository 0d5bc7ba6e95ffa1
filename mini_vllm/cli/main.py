"""`mini-vllm`: the commands, put together."""

import typer

from mini_vllm.cli.bench import bench_app
from mini_vllm.cli.calibrate import calibrate
from mini_vllm.cli.demo import demo
from mini_vllm.cli.generate import generate
from mini_vllm.cli.grade import grade
from mini_vllm.cli.info import info
from mini_vllm.cli.judge import judge
from mini_vllm.cli.oracle import oracle
from mini_vllm.cli.parity import parity
from mini_vllm.cli.release import release
from mini_vllm.cli.simulate import simulate
from mini_vllm.cli.stages import stages
from mini_vllm.cli.trace import trace
from mini_vllm.lineup import solutions_exist

app = typer.Typer(
    name="mini-vllm",
    help="A miniature of the vLLM V1 engine, made of six phases that you write.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, generate, trace, stages, simulate, calibrate, parity, grade, info):
    app.command()(command)
for needs_the_reference in (oracle, release, judge):
    app.command(hidden=not solutions_exist())(needs_the_reference)
app.add_typer(bench_app, name="bench")


@app.callback()
def main() -> None:
    pass
