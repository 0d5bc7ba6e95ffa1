"""Imports that a starter must not have are found, however they are written; others are fine."""

import pytest

from course.sandbox.imports import refused_import
from tests.mutants.catalog import PHASES, reference


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import course", "course"),
        ("import torch, course.labtest as found", "course.labtest"),
        ("def f():\n    from course.labtest import phase1_plays", "course.labtest.phase1_plays"),
        ("from tests import mutants", "tests.mutants"),
        ("from solutions.phase1_scheduler_step import clamp", "solutions.phase1_scheduler_step.clamp"),
        ("from labs import conftest", "labs.conftest"),
        ("from ..conftest import phase_module", "labs.conftest.phase_module"),
        ("from . import test_task1_1_clamp", "labs.phase0_own.test_task1_1_clamp"),
        ("from ... import course", "labs"),
        ("import importlib\nimportlib.import_module('course.oracle')", "course.oracle"),
        ("clamp = getattr(__import__('course'), 'clamp')", "course"),
        ("from importlib import import_module as load\nload('course')", "course"),
        ("import course.labtest.recorded as y", "course.labtest.recorded"),
        ("exec('import course.oracle')", "course.oracle"),
        ("f = eval(\"__import__('solutions')\")", "solutions"),
        ("from policies.priority import Priority", "policies.priority.Priority"),
        ("from mini_vllm.electives.policy import policy_queue", "mini_vllm.electives.policy.policy_queue"),
        (
            "import importlib as i\ni.import_module('mini_vllm.electives.policy.policy_step')",
            "mini_vllm.electives.policy.policy_step",
        ),
        ("import sys\nclamp = sys.modules['course.labtest.phase1_plays']", "course.labtest.phase1_plays"),
    ],
)
def test_a_refused_import_is_named_with_its_line(source: str, name: str) -> None:
    last = source.count("\n") + 1
    assert refused_import(source).startswith(f"line {last} imports {name}: your answer has to be in your own file.")


@pytest.mark.parametrize(
    "source",
    [
        "from mini_vllm.core.request import Request\nimport numpy, heapq",
        "from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy",
        "from labs.phase1_scheduler_step.starter import clamp",
        "from labs.phase1_scheduler_step import starter",
        "from ..phase1_scheduler_step.starter import clamp\nfrom .starter_triton import kernel",
        "course = 'course'\ntests = [course]\nprint('a course of tests.')",
        "from course import (",
    ],
)
def test_other_files_are_fine(source: str) -> None:
    assert refused_import(source) == ""


@pytest.mark.parametrize("phase", PHASES)
def test_no_reference_needs_more_than_a_starter_may_import(phase: int) -> None:
    assert refused_import(reference(phase).text) == ""
