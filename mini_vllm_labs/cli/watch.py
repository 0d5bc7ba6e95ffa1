"""`mini-vllm watch` grades every save, shows hints and ticks, and ends with a run of the learner's engine."""

import importlib.util
from typing import Annotated

import typer

from mini_vllm.installation import install_command
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console


@friendly
def watch(
    finish: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="observer: the tour and the claims, without code; scheduler: phases 1 to 3; engine: phases 1 to 6. "
            "The choice is remembered. Default: engine.",
        ),
    ] = None,
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help="Only these phases, electives too.")] = None,
) -> None:
    """Grade on every save, and show the first failing task.

    Keys: h for the next hint, n for the next task, l for a list with check marks, o for a step of your engine. Also: a
    for other ways to solve a passed task, s for a page to share, q to quit. Without a terminal, the command prints
    verdicts until Ctrl-C.
    """
    from mini_vllm_labs.cli.grade import require_this_checkout
    from mini_vllm_labs.cli.watching.loop import Watch
    from mini_vllm_labs.cli.watching.observer import Observer
    from mini_vllm_labs.cli.watching.screen import keys
    from mini_vllm_labs.cli.watching.session import FINISHES, keep, kept
    from mini_vllm_labs.pictures.terminal.options import chosen_phases
    from mini_vllm_labs.runs.starter_status import LABS

    require_this_checkout()
    if importlib.util.find_spec("pytest") is None:
        fail(f"watch grades with pytest: {install_command('test')}", 1)
    if finish is not None:
        if finish not in FINISHES:
            raise ValueError(f"--finish {finish}: choose one of {', '.join(FINISHES)}")
        keep(finish=finish)
    chosen = kept().get("finish")
    name = chosen if chosen in FINISHES else "engine"
    phases = FINISHES[name] if phase is None else chosen_phases(phase, len(LABS))
    console = make_console()
    console.print(f"Watching ({f'phases {phase}' if phase else f'finish: {name}'}). What you save is graded.")
    try:
        with keys() as read:
            (Watch(console, read, "run" if phase else name, phases) if phases else Observer(console, read)).go()
    except KeyboardInterrupt:
        console.print()
    console.print("Stopped. Your ticks are kept: mini-vllm watch continues from here.", markup=False)
