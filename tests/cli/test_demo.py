"""Tests how `mini-vllm demo` shows a run in a pool that is too small, in pictures and in lines."""

import re

import pytest
from rich.console import Console

from mini_vllm import LLM, parse_lineup
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.cli.demo import EngineClock, plan_demo, run
from mini_vllm_labs.pictures.terminal.console import make_console
from mini_vllm_labs.pictures.terminal.options import open_llm
from mini_vllm_labs.pictures.terminal.step_view import render_step
from mini_vllm_labs.runs.palette import label
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState, fold
from mini_vllm_labs.runs.traces.sentences import describe_step
from tests.cli.conftest import Commands


def run_demo(lineup_text: str) -> tuple[LLM, RunState]:
    lineup = parse_lineup(lineup_text)
    plan = plan_demo(lineup)
    llm = open_llm(None, plan.config, lineup, record=True)
    watcher, _ = run(llm, plan, make_console(), 0)
    return llm, watcher.state


@pytest.fixture(scope="module")
def real() -> tuple[LLM, RunState]:
    return run_demo("solution")


def drawn(state: RunState, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(render_step(state, width - 1))
    return capture.get()


def states(llm: LLM, info: RunInfo) -> list[tuple[StepRecord, str, str]]:
    state, seen = RunState(info), []
    for record in llm.engine.recorder.steps:
        state.advance(record)
        seen.append((record, drawn(state), describe_step(state)))
    return seen


def test_everything_happens_in_the_small_pool_and_the_state_agrees_with_the_engine(real: tuple[LLM, RunState]) -> None:
    llm, state = real
    assert min(state.num_preemptions, len(state.chunked), state.num_recomputed_tokens) >= 1
    assert state.num_hits >= 2
    assert len(state.finished) == len(state.info.titles)
    hits: dict[str, int] = {}
    for share in (share for record in llm.engine.recorder.steps for share in record["scheduled"]):
        # a preempted request would hit blocks that it had computed itself
        hits.setdefault(share["id"], share.get("hit", 0))
    assert state.hit_rate == pytest.approx(sum(hits.values()) / sum(state.info.num_prompt_tokens.values()))
    again = fold(state.info, llm.engine.recorder.steps)
    assert (again.num_hits, again.tables) == (state.num_hits, state.tables)


def test_every_picture_fits_a_small_terminal_and_shows_the_free_blocks(real: tuple[LLM, RunState]) -> None:
    llm, state = real
    for record, picture, _ in states(llm, state.info):
        lines = picture.splitlines()
        assert len(lines) <= 23
        assert max(map(len, lines)) <= 80
        row = next(line for line in lines if line.startswith("blocks"))
        assert row.count("▌") + row.count("·") == record["free_after_schedule"]


def test_pictures_and_sentences_show_what_happened(real: tuple[LLM, RunState]) -> None:
    llm, state = real
    for record, picture, sentence in states(llm, state.info):
        assert sentence
        for victim, *_ in record["preempted"]:
            assert re.search(rf"^ {state.info.label(victim)}  preempted", picture, re.MULTILINE)
            assert "preempted" in sentence
        for share in record["scheduled"]:
            assert re.search(
                rf"^ {state.info.label(share['id'])}  (prefill|decode) +\+{share['n']}\b", picture, re.MULTILINE
            )


def test_without_a_terminal_the_demo_prints_lines_texts_and_numbers(mini_vllm: Commands) -> None:
    shown = mini_vllm("demo").output
    assert "6 GPU runner: reference" in shown
    assert re.search(r"^step \d", shown, re.MULTILINE)
    assert "PREEMPTED" in shown
    assert "hit" in shown
    assert "Umar lives in Lima." in shown
    assert not re.search(r" [A-H]:(?!1\b)\d+\b(?!p)", shown), "only one newest token is a decode"
    assert re.search(r"^preemptions +[1-9]", shown, re.MULTILINE)
    assert "inter-token latency" in shown


def test_without_phase_6_the_answers_are_the_same_sentences(mini_vllm: Commands) -> None:
    shown = mini_vllm("demo", "--lineup", "solution:1-5").output
    assert "a plain forward pass without a KV cache" in " ".join(shown.split())
    assert "Umar lives in Lima." in shown


def test_every_step_is_in_the_lines(mini_vllm: Commands) -> None:
    shown = mini_vllm("demo", "--fake-model", "--lineup", "solution:1-5").output
    steps: list[int] = []
    for first, last in re.findall(r"^step (\d+)(?:-(\d+))?", shown, re.MULTILINE):
        steps += range(int(first), int(last or first) + 1)
    assert steps == list(range(len(steps)))
    assert f"{len(steps)} in " in shown


@pytest.mark.parametrize(
    "lineup", ["solution:1", "solution:1-2", "solution:1-3", "solution:1-4", "solution:1,solution:5"]
)
def test_absent_phases_are_named_and_the_fake_model_generates(mini_vllm: Commands, lineup: str) -> None:
    shown = mini_vllm("demo", "--fake-model", "--lineup", lineup).output
    assert "the fake model generates" in " ".join(shown.split())
    for phase in range(2, 7):
        absent = parse_lineup(lineup)[phase] == "absent"
        assert (f"Phase {phase} is absent" in shown) == absent


def test_what_the_fake_model_shows_depends_on_the_phases() -> None:
    _, state = run_demo("solution:1-5")
    assert min(state.num_preemptions, state.num_hits, len(state.chunked)) >= 1
    _, state = run_demo("solution:1")
    picture = drawn(state)
    assert "slots per cell" in picture, "a pool of single slots has many of them in a cell"
    assert not re.search("^ *blocks", picture, re.MULTILINE), "there are none before phase 2"
    assert max(map(len, picture.splitlines())) <= 80
    assert state.num_hits == 0


def test_the_demo_ends_with_what_each_phase_changes_in_the_same_pool(mini_vllm: Commands) -> None:
    """With phase 3 all requests finish, and with phase 4 fewer tokens are computed."""
    shown = mini_vllm("demo", "--lineup", "solution:1-4", "--fake-model").output
    rows = {line.split()[0]: line.split()[1:] for line in shown.partition("phase by phase")[2].splitlines()[2:] if line}
    assert (rows["1-2"][1:], rows["1-3"][1]) == (["8", "-", "-"], "-")
    assert int(rows["1-4"][2].replace(",", "")) < int(rows["1-3"][2].replace(",", ""))
    assert "phase by phase" not in mini_vllm("demo", "--lineup", "solution:1", "--fake-model").output


def test_the_clock_does_not_count_pauses() -> None:
    clock = EngineClock()
    start = clock()
    clock.stop()
    clock._stopped_at -= 5
    clock.go()
    assert clock() - start < -4


def test_requests_have_letters_however_many_there_are() -> None:
    assert [label(index) for index in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
