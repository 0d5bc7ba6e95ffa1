"""The grade of whole courses: untouched, solved, failing in the stack, without solutions, or not loading."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mini_vllm_labs.grading.plan import PLAN_FILE, load_plan, load_whole_plan, make_plan, plan_text
from tests.grading.checkout import ELECTIVES, PHASES, Checkout, solution, with_line

NO_BLOCK_IS_FREED = "self.req_to_blocks.pop(request.request_id, None); return"
TALLEST, WIDEST = 24, 80


def test_the_plan_is_what_the_reference_collects() -> None:
    current = PLAN_FILE.read_text(encoding="utf-8") == plan_text(make_plan())
    assert current, "the graded tests or a starter have changed: run `python -m mini_vllm_labs.grading.plan`"


def test_every_task_is_worth_ten_points() -> None:
    assert [len(phase.tasks) for phase in load_plan()] == [5, 5, 5, 6, 5, 7]
    assert [len(phase.tasks) for phase in load_whole_plan()[6:]] == [7, 4, 5, 5, 5, 5, 2, 6]
    assert {task.points for phase in load_whole_plan() for task in phase.tasks} == {10}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def student(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, solutions=False)


def test_untouched_starters(checkout: Checkout, tmp_path: Path) -> None:
    done = checkout.run("--junit", str(tmp_path / "report.xml"), LAB_IMPL="solution")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= TALLEST
    assert all(len(line) <= WIDEST for line in lines)
    assert "0 of 330 points" in done.stdout
    assert "next: Phase 1, task 1 (labs/phase1_scheduler_step/README.md)" in lines
    assert lines[-1].strip() == "LAB_IMPL=starter pytest labs/phase1_scheduler_step -m task1_1"
    suites = list(ElementTree.parse(tmp_path / "report.xml").getroot())
    assert [suite.get("tests") for suite in suites] == [str(len(phase.tests) + 2) for phase in load_plan()]
    assert all(failure.get("message", "").startswith("Not written yet: Phase") for failure in suites[0].iter("failure"))


def test_untouched_starters_need_no_tests(checkout: Checkout) -> None:
    """Untouched starters have known points; with an added comment they are run, and get the same points."""
    checkout.thin_out(3)
    with checkout.starter(1).open("a", encoding="utf-8") as starter:
        starter.write("# mine\n")
    run = checkout.grade("--phase", "1-2")
    for path in checkout.starter(2).parent.glob("test_*.py"):
        path.write_text("raise SystemExit\n", encoding="utf-8")
    for graded in (run, checkout.grade("--phase", "1-2")):
        assert set(statuses(graded)) == {"not started"}
        messages = [test["message"] for phase in graded["phases"] for task in phase["tasks"] for test in task["tests"]]
        assert all(message.startswith("Not written yet: Phase") for message in messages)


def test_a_solved_course(checkout: Checkout) -> None:
    checkout.solve(*PHASES)
    graded = checkout.grade("--min-points", "330")
    assert (graded["total"], graded["max"], graded["exit code"]) == (330, 330, 0)
    assert [phase["alone"]["status"] for phase in graded["phases"]] == ["passed"] * 6
    assert [phase["stack"]["status"] for phase in graded["phases"]] == ["passed"] * 6, graded["phases"][-1]["stack"]
    assert [phase["alone"]["oracle"]["status"] for phase in graded["phases"]] == ["passed"] * 5 + ["not checked"]


def test_an_elective_is_graded_once_it_is_begun_and_counts_apart(checkout: Checkout) -> None:
    """Untouched electives take up one line; phases 1 to 6 are still worth 330 points."""
    checkout.thin_out(3)
    assert "electives (phases 7 to 14) are graded once you begin them" in checkout.run(engines=False).stdout
    checkout.solve(7)
    shown = checkout.run(engines=False).stdout
    assert "0 of 330 points" in shown
    assert "electives: 70 of 70 points" in shown
    assert "next: Phase 1, task 1" in shown
    graded = checkout.grade(engines=False)
    assert [phase["phase"] for phase in graded["phases"]] == [*PHASES, 7]
    assert (graded["total"], graded["max"], graded["electives"]) == (0, 330, {"total": 70, "max": 70})


def test_solved_electives_run_with_phases_1_to_5(checkout: Checkout) -> None:
    """`labs` runs all tests of these solutions, so a few tests per task are enough here."""
    electives = [one for one in ELECTIVES if one != 13]
    checkout.thin_out(3)
    checkout.solve(1, 2, 3, 4, 5, *electives)
    graded = checkout.grade("--phase", "7-14", "--min-points", "30")
    assert graded["exit code"] == 0
    assert [found["phase"] for found in graded["phases"]] == list(ELECTIVES)
    assert graded["electives"]["total"] == sum(found["max"] for found in graded["phases"] if found["phase"] != 13)
    for elective in (found for found in graded["phases"] if found["phase"] != 13):
        assert elective["points"] == elective["max"], json.dumps(elective)
        assert elective["alone"] == {"status": "passed", "oracle": elective["stack"]}
        assert elective["stack"]["status"] == "passed", elective["stack"]


def test_policies_have_points_and_wait_for_phases_1_to_5(checkout: Checkout) -> None:
    untouched = checkout.grade("--phase", "13")
    assert (statuses(untouched), untouched["electives"]) == (["not started"] * 2, {"total": 0, "max": 20})
    checkout.starter(13).write_text(solution(13).replace("slack(self", "slacks(self"), encoding="utf-8")
    assert statuses(checkout.grade("--phase", "13")) == ["passed", "failed"]
    checkout.solve(13)
    graded = checkout.grade("--phase", "13", "--min-points", "20")
    assert (graded["exit code"], graded["electives"]["total"]) == (0, 20)
    (phase,) = graded["phases"]
    assert (phase["stack"]["status"], phase["alone"]["oracle"]["status"]) == ("not yet", "not checked")


def test_policies_without_phases_under_them_say_so(student: Checkout) -> None:
    student.solve(1, 13)
    assert (
        "Policies run on your phases 1 to 5, and phase 2 is not fully written." in student.run("--phase", "13").stdout
    )
    student.solve(2, 3, 4, 5)
    assert student.grade("--phase", "13")["electives"] == {"total": 20, "max": 20}


def test_an_elective_alone_has_no_points_of_the_course(checkout: Checkout) -> None:
    checkout.thin_out(3)
    shown = checkout.run("--phase", "7-8").stdout
    assert "0 of 0" not in shown
    assert "electives: 0 of 110 points" in shown
    assert "next: Phase 7, task 1 (labs/phase7_speculative_decoding/README.md)" in shown


def test_drafts_that_are_never_taken_back_fail_beside_the_reference(checkout: Checkout) -> None:
    """The plan is cut to one task, so that no graded test sees the mistake."""
    plan = json.loads(PLAN_FILE.read_text(encoding="utf-8"))
    plan["phases"][6]["tasks"] = plan["phases"][6]["tasks"][:1]
    (checkout.folder / "mini_vllm_labs" / "grading" / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    checkout.solve(1, 2, 3, 4, 5)
    checkout.starter(7).write_text(with_line(solution(7), "roll_back", "return"), encoding="utf-8")
    (elective,) = checkout.grade("--phase", "7")["phases"]
    assert (elective["alone"]["oracle"]["status"], elective["stack"]["status"]) == ("failed", "failed")


@pytest.mark.parametrize("with_solutions", [True, False], ids=["with solutions", "student edition"])
def test_the_earlier_phase_at_fault_is_named(tmp_path: Path, with_solutions: bool) -> None:
    checkout = Checkout(tmp_path, solutions=with_solutions)
    checkout.solve(1, 3)
    checkout.starter(2).write_text(with_line(solution(2), "free", NO_BLOCK_IS_FREED), encoding="utf-8")
    (third,) = checkout.grade("--phase", "3")["phases"]
    assert (third["alone"]["status"], third["stack"]["status"]) == ("passed", "failed")
    assert third["stack"]["culprits"] == [2]
    assert third["points"] == third["max"]
    if with_solutions:
        return
    shown = checkout.run("--phase", "2-3").stdout
    assert "Phase 3 passes alone but fails in the stack: your phase 2 is at fault." in shown
    assert "next: Phase 2, task 4" in shown


def test_a_student_edition(student: Checkout) -> None:
    student.solve(1)
    done = student.run("--phase", "1-2")
    assert done.returncode == 0, done.stderr
    assert "50 of 100 points" in done.stdout
    assert done.stdout.splitlines()[-1].strip() == "pytest labs/phase2_block_pool -m task2_1"
    assert any(
        line.startswith("1 ") and line.split()[-3:] == ["50/50", "pass", "pass"] for line in done.stdout.splitlines()
    )


def test_what_is_wrong_only_beside_the_reference_is_shown_as_steps(checkout: Checkout) -> None:
    """The phase's plan is cut to one task, so that no graded test sees the mistake."""
    plan = json.loads(PLAN_FILE.read_text(encoding="utf-8"))
    plan["phases"][4]["tasks"] = plan["phases"][4]["tasks"][3:4]
    (checkout.folder / "mini_vllm_labs" / "grading" / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    checkout.solve(1, 2, 3, 4)
    wrong = solution(5).replace("self.threshold = long_prefill_token_threshold", "self.threshold = 0")
    checkout.starter(5).write_text(wrong, encoding="utf-8")
    shown = checkout.run("--phase", "5").stdout
    assert "10 of 10 points" in shown
    assert "Phase 5 beside the reference" in shown
    assert "the first difference from the reference is in step 0, 'scheduled'" in " ".join(shown.split())
    assert "mini-vllm oracle --phase 5" in shown


def change_the_fixtures(checkout: Checkout) -> None:
    path = checkout.folder / "labs" / "conftest.py"
    path.write_text(path.read_text(encoding="utf-8").replace("match impl:", 'match "solution":'), "utf-8")


def test_a_phase_whose_file_was_not_loaded_is_an_error(checkout: Checkout) -> None:
    change_the_fixtures(checkout)
    checkout.solve(1)
    graded = checkout.grade("--phase", "1")
    assert (graded["total"], graded["exit code"]) == (0, 1)
    assert "not labs/phase1_scheduler_step/starter.py: this would not grade your work" in graded["phases"][0]["error"]


def test_a_test_of_the_plan_that_does_not_exist_is_not_run(checkout: Checkout) -> None:
    checkout.solve(1)
    path = checkout.folder / "mini_vllm_labs" / "grading" / "labtest" / "phase1.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("neither binds", "none binds"), encoding="utf-8")
    (first,) = checkout.grade("--phase", "1")["phases"]
    task = first["tasks"][0]
    assert 0 < task["points"] < task["max"] == 10
    lost = [test for test in task["tests"] if test["outcome"] != "passed"]
    assert {test["outcome"] for test in lost} == {"not run"}
    assert "test_clamp[neither binds]" in lost[0]["id"]


def test_points_below_the_limit(checkout: Checkout) -> None:
    done = checkout.run("--phase", "1", "--min-points", "1", engines=False)
    assert done.returncode == 1
    assert "0 of 50 points" in done.stdout


@pytest.mark.parametrize("phase", ["0", "15", "x", "3-2", "1-"])
def test_a_phase_that_does_not_exist_is_bad_usage(checkout_for_usage: Checkout, phase: str) -> None:
    done = checkout_for_usage.run("--phase", phase)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def checkout_for_usage(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("course"))


def test_another_checkout_than_the_one_at_hand_is_refused(monkeypatch: pytest.MonkeyPatch, checkout: Checkout) -> None:
    from mini_vllm_labs.cli.grade import require_this_checkout

    monkeypatch.chdir(checkout.folder)
    with pytest.raises(ValueError, match="mini_vllm is imported from"):
        require_this_checkout()


def test_the_first_failure_is_shown_with_the_message_of_its_test(checkout: Checkout) -> None:
    checkout.starter(1).write_text(with_line(solution(1), "clamp", "return num_new"), encoding="utf-8")
    shown = checkout.run("--phase", "1", engines=False).stdout
    for words in ("Phase 1, task 1: test_clamp", "expected", "yours", "Hint:", "again: LAB_IMPL=starter pytest"):
        assert words in shown


def statuses(graded: dict[str, Any]) -> list[str]:
    return [task["status"] for phase in graded["phases"] for task in phase["tasks"]]


def test_a_half_written_phase(checkout: Checkout) -> None:
    text = solution(1)
    start = text.index("def update_from_output")
    untouched = checkout.starter(1).read_text(encoding="utf-8")
    checkout.starter(1).write_text(text[:start] + untouched[untouched.index("def update_from_output") :], "utf-8")
    graded = checkout.grade("--phase", "1")
    assert statuses(graded) == ["passed", "passed", "passed", "not started", "not started"]
    assert graded["next"]["what"].startswith("Phase 1, task 4")


BROKEN: dict[str, Callable[[str], str | None]] = {
    "syntax error": lambda text: "def broken(:\n" + text,
    "import error": lambda text: "import nowhere_at_all\n" + text,
    "endless loop": lambda text: "while True: pass\n" + text,
    "missing file": lambda text: None,
    "unwritten": lambda text: "",
}


@pytest.mark.parametrize(
    ("phase", "kind", "solutions"),
    [*((phase, kind, False) for phase, kind in enumerate(BROKEN, start=1)), (1, "syntax error", True)],
)
def test_no_phase_is_blamed_for_one_that_does_not_load(tmp_path: Path, phase: int, kind: str, solutions: bool) -> None:
    checkout = Checkout(tmp_path, solutions=solutions)
    checkout.thin_out(1)
    checkout.solve(*({1, 2, 3, 4, 5, 7, 8} - {phase}))
    starter, change = checkout.starter(phase), BROKEN[kind]
    if (text := change(solution(phase))) is None:
        starter.unlink()
    elif text:
        starter.write_text(text, encoding="utf-8")
    graded = checkout.grade()["phases"]
    stacks = {found["phase"]: found["stack"] for found in graded if found["alone"]["status"] == "passed"}
    assert {7, 8} < set(stacks)
    for number, stack in stacks.items():
        expected = "passed" if number < phase else "not yet" if kind == "unwritten" else "not graded"
        assert (stack["status"], stack["culprits"]) == (expected, [phase] * (number >= phase)), number
    shown = checkout.run("--phase", "7-8", engines=True).stdout
    reason = "is not fully written" if kind == "unwritten" else "does not load"
    assert f"Not graded in the stack: phases 7 and 8, because phase {phase} {reason}." in shown
    assert "fault" not in shown


def test_a_phase_that_never_ends_is_at_fault_and_not_those_after_it(tmp_path: Path) -> None:
    """There is no reference, and an earlier phase's stack was never run."""
    checkout = Checkout(tmp_path, solutions=False)
    checkout.thin_out(3)
    checkout.solve(1, 3, 4)
    checkout.starter(2).write_text(with_line(solution(2), "allocate_slots", "while True: pass"), encoding="utf-8")
    graded = {found["phase"]: found["stack"] for found in checkout.grade("--phase", "1-4")["phases"]}
    assert [(graded[number]["status"], graded[number]["culprits"]) for number in (3, 4)] == [("endless", [2])] * 2
    shown = checkout.run("--phase", "1-4").stdout
    assert "Not graded in the stack: phases 3 and 4, because tests of phase 2 do not end." in shown
    alone = checkout.grade("--phase", "3")["phases"][0]["stack"]
    assert (alone["status"], alone["culprits"]) == ("failed", [2])


def test_what_only_the_judge_would_say_is_named_and_stops_nothing(checkout: Checkout) -> None:
    text = with_line(solution(1), "clamp", "breakpoint()")
    text = with_line(text, "schedule_step", "from mini_vllm.engine import errors")
    checkout.starter(1).write_text(text, encoding="utf-8")
    shown = " ".join(checkout.run("--phase", "1", engines=False).stdout.split())
    debugger, foreign = (
        text[: text.index(words)].count("\n") + 1 for words in ("breakpoint()", "from mini_vllm.engine")
    )
    assert f"Phase 1: Your file starts a debugger in line {debugger}." in shown
    assert f"Your file imports mini_vllm.engine.errors (line {foreign}). The judge does not have this" in shown
    assert "50 of 50 points" in shown
