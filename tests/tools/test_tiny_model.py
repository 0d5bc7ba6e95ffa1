"""The embedded model can be reproduced: its training text is the same every time, and the training script runs."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from mini_vllm import LLM, parse_lineup
from mini_vllm.runner.loading import EMBEDDED_MODEL, load_model
from mini_vllm_labs.upkeep.tiny_model.corpus import LOOKING_UP, corpus, notes, recital
from mini_vllm_labs.upkeep.tiny_model.evaluate import as_table, grade
from mini_vllm_labs.upkeep.tiny_model.rows import Encoded, batches, pieces

ROOT = Path(__file__).parents[2]


def test_the_text_is_the_same_every_time() -> None:
    first, again = (list(islice(corpus(1, 100_000), 50)) for _ in range(2))
    assert first == again
    assert len({str(document) for document in first}) > 40


def test_only_the_assistants_turns_carry_loss() -> None:
    chat = next(document for document in corpus(1, 100_000) if document.messages)
    answers = [m["content"] + "<|im_end|>" for m in chat.messages if m["role"] == "assistant"]
    assert [text for text, carries_loss in pieces(chat) if carries_loss] == [*answers, "<|endoftext|>"]


def test_every_note_answers_its_own_question() -> None:
    system, turns = notes(random.Random(3), 12)
    assert len(turns) == 12
    assert all(answer in system.splitlines() for _, answer in turns)


def test_a_recital_answers_several_questions_from_the_notes() -> None:
    system, turns = notes(random.Random(3), 6)
    asked, answered = recital(random.Random(4), turns)
    chosen = [turn for turn in turns if turn[0] in asked]
    assert len(chosen) > 1
    assert sorted(answered.replace(". ", ".\n").splitlines()) == sorted(answer for _, answer in chosen)
    assert all(answer in system for _, answer in chosen)


def test_notes_of_one_kind_differ_in_their_names() -> None:
    system, turns = notes(random.Random(3), 12, kind=2)
    assert all(" likes " in statement for statement in system.splitlines()[2:])
    assert len({statement.split()[0] for _, statement in turns}) == 12
    mixed, alike = (chats_about_notes(share) for share in (0.0, 1.0))
    assert all(len(kinds_in(chat)) == 1 for chat in alike)
    assert any(len(kinds_in(chat)) > 1 for chat in mixed)


def chats_about_notes(one_kind_share: float) -> list[list[str]]:
    """Return the notes of each chat that has notes."""
    made = islice(corpus(1, 10**6, replace(LOOKING_UP, one_kind_share=one_kind_share)), 40)
    systems = [document.messages[0]["content"] for document in made if document.messages]
    return [system.splitlines()[2:] for system in systems if "Notes:" in system]


def kinds_in(statements: list[str]) -> set[str]:
    return {"room" if each.startswith("The room") else each.split()[1] for each in statements}


def test_windows_of_whole_documents_start_with_one() -> None:
    starts = torch.tensor([0, 7, 19])
    data = Encoded(torch.arange(60), torch.ones(60, dtype=torch.bool), starts)
    ids = torch.cat([rows[:, 0] for rows, _ in batches(data, 3, 32, whole_documents=True)])
    assert set(ids.tolist()) <= set(starts.tolist())


@pytest.mark.parametrize("options", [[], ["--looking-up", "--length", "256"]], ids=["first run", "looking up"])
def test_the_script_trains_and_saves(tmp_path: Path, options: list[str]) -> None:
    command = [
        sys.executable,
        "-m",
        "mini_vllm_labs.upkeep.tiny_model.train",
        str(tmp_path),
        "--steps",
        "2",
        "--characters",
        "60000",
    ]
    command += options
    # tests run in parallel, so more threads would only wait for each other
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=one_thread, check=True, capture_output=True)
    loaded, tokenizer = load_model(str(tmp_path))
    assert tokenizer.decode(tokenizer.encode("One day, Mina")) == "One day, Mina"
    assert loaded.vocab_size == len(tokenizer.tokenizer)
    assert "--steps 2" in (tmp_path / "README.md").read_text()


def test_the_readme_states_the_models_abilities() -> None:
    table = as_table(grade(LLM(lineup=parse_lineup("solution"))))
    assert (EMBEDDED_MODEL / "README.md").read_text().endswith(table)
