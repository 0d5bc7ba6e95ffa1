"""A starter's forbidden imports are found, however they are written; other imports are allowed."""

import pytest

from mini_vllm_labs.runs.sandbox.imports import refused_import
from tests.mutants.catalog import PHASES, reference


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import mini_vllm_labs", "mini_vllm_labs"),
        ("import torch, mini_vllm_labs.grading.labtest as found", "mini_vllm_labs.grading.labtest"),
        (
            "def f():\n    from mini_vllm_labs.grading.plays import phase1_plays",
            "mini_vllm_labs.grading.plays.phase1_plays",
        ),
        ("from tests import mutants", "tests.mutants"),
        ("from solutions.phase1_scheduler_step import clamp", "solutions.phase1_scheduler_step.clamp"),
        ("from labs import conftest", "labs.conftest"),
        ("from ..conftest import phase_module", "labs.conftest.phase_module"),
        ("from . import test_task1_1_clamp", "labs.phase0_own.test_task1_1_clamp"),
        ("from ... import tests", "labs"),
        ("import importlib\nimportlib.import_module('mini_vllm_labs.runs.oracle')", "mini_vllm_labs.runs.oracle"),
        ("clamp = getattr(__import__('mini_vllm_labs'), 'clamp')", "mini_vllm_labs"),
        ("from importlib import import_module as load\nload('tests')", "tests"),
        ("import mini_vllm_labs.grading.labtest.recorded as y", "mini_vllm_labs.grading.labtest.recorded"),
        ("exec('import mini_vllm_labs.runs.oracle')", "mini_vllm_labs.runs.oracle"),
        ("f = eval(\"__import__('solutions')\")", "solutions"),
        ("from mini_vllm_labs.policies.priority import Priority", "mini_vllm_labs.policies.priority.Priority"),
        ("from mini_vllm.electives.policy import policy_queue", "mini_vllm.electives.policy.policy_queue"),
        (
            "import importlib as i\ni.import_module('mini_vllm.electives.policy.policy_step')",
            "mini_vllm.electives.policy.policy_step",
        ),
        (
            "import sys\nclamp = sys.modules['mini_vllm_labs.grading.plays.phase1_plays']",
            "mini_vllm_labs.grading.plays.phase1_plays",
        ),
    ],
)
def test_a_refused_import_is_named_with_its_line(source: str, name: str) -> None:
    last = source.count("\n") + 1
    assert refused_import(source).startswith(f"line {last} imports {name}: your answer must be in your own file.")


@pytest.mark.parametrize(
    "source",
    [
        "from mini_vllm.core.request import Request\nimport numpy, heapq",
        "from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy",
        "from labs.phase1_scheduler_step.starter import clamp",
        "from labs.phase1_scheduler_step import starter",
        "from ..phase1_scheduler_step.starter import clamp\nfrom .starter_triton import kernel",
        "tests = 'tests'\nlabs = [tests]\nprint('labs of tests.')",
        "from tests import (",
    ],
)
def test_other_files_are_fine(source: str) -> None:
    assert refused_import(source) == ""


@pytest.mark.parametrize("phase", PHASES)
def test_no_reference_needs_more_than_a_starter_may_import(phase: int) -> None:
    assert refused_import(reference(phase).text) == ""
