"""A starter is its solution without the function bodies: same names, same signatures, same docstrings."""

import ast
import re

import pytest

from mini_vllm_labs.runs.starter_status import starter_path
from tests.course.surface import (
    PHASES,
    attributes_set,
    declared_attributes,
    functions,
    parse,
    solution_path,
    surface,
)

of_each_phase = pytest.mark.parametrize("phase", PHASES)


@pytest.mark.parametrize("phase", [one for one in PHASES if one != 13])  # phase 13: tests/policies/test_lab.py
def test_starter_and_solution_have_the_same_public_names_signatures_and_docstrings(phase: int) -> None:
    starter = surface(parse(starter_path(phase)).body)
    assert starter, "a starter with nothing in it"
    assert starter == surface(parse(solution_path(phase)).body)


@of_each_phase
def test_an_attribute_that_a_starter_declares_is_one_that_the_solution_sets(phase: int) -> None:
    assert declared_attributes(parse(starter_path(phase))) <= attributes_set(parse(solution_path(phase)))


@of_each_phase
def test_every_public_thing_is_annotated_and_described(phase: int) -> None:
    for node in functions(parse(starter_path(phase))):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        bare = [a.arg for a in arguments if a.annotation is None and a.arg != "self"]
        assert not bare, f"{node.name}: no annotation for {bare}"
        assert node.returns is not None, f"{node.name} has no return annotation"
        if not node.name.startswith("__"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


@of_each_phase
def test_every_starter_body_is_one_raise_that_names_phase_task_and_function(phase: int) -> None:
    found = list(functions(parse(starter_path(phase))))
    assert found
    for node in found:
        body = node.body[1:] if ast.get_docstring(node) else node.body
        assert len(body) == 1, f"{node.name} has a body"
        (statement,) = body
        assert isinstance(statement, ast.Raise), f"{node.name} does not raise"
        call = statement.exc
        assert isinstance(call, ast.Call), f"{node.name} raises without a message"
        assert ast.unparse(call.func) == "NotImplementedError"
        (message,) = (ast.literal_eval(argument) for argument in call.args)
        assert re.match(rf"Phase {phase}, tasks? \d( and \d|, \d)*: \S", message), f"{node.name}: {message}"


@of_each_phase
def test_the_tasks_that_a_starter_names_are_the_tasks_that_are_graded(phase: int) -> None:
    files = [path for path in starter_path(phase).parent.glob("test_task*.py") if "in_an_engine" not in path.name]
    graded = {match[1] for file in files if (match := re.match(r"test_(task\d+_\d+)_", file.name))}
    raised = re.findall(r"Phase \d+, tasks? ([\d and,]+):", starter_path(phase).read_text(encoding="utf-8"))
    named = {f"task{phase}_{task}" for tasks in raised for task in re.findall(r"\d", tasks)}
    assert named == graded
