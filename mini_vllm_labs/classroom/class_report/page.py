"""Draws the report on a class as one page of pictures, each accompanied by text. Names are left out by default."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import median

from mini_vllm_labs.classroom.class_report.learners import Learner, TaskHistory
from mini_vllm_labs.pictures.bars import bars
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.runs.starter_status import lab_folder

MOST = 12
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color-scheme:light}"
    "section{display:inline-block;vertical-align:top;margin:0 1em 1em 0;max-width:330px}"
    "pre{white-space:pre-wrap}td,th{text-align:left;padding:0 1em 0 0}"
)


def by_task(learners: Iterable[Learner]) -> dict[str, list[TaskHistory]]:
    """Return what the learners did in each task, in task order."""
    found: dict[str, list[TaskHistory]] = {}
    for learner in learners:
        for task, history in learner.tasks.items():
            found.setdefault(task, []).append(history)
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def pictures(learners: Sequence[Learner]) -> list[Picture]:
    """Return five pictures: tries, time, stops, broken rules and missed predictions."""
    tasks = by_task(learners)
    tries = {task: median(one.tries for one in found) for task, found in tasks.items()}
    minutes = {task: round(median(one.minutes for one in found), 1) for task, found in tasks.items()}
    # The rule is a test's case, which appears in brackets after the test's name.
    broken = [(task, rule) for task, found in tasks.items() for one in found for rule in one.rules]
    rules = Counter(f"{task}: {rule.partition('[')[2].rstrip(']') or rule}" for task, rule in broken)
    missed = Counter(question for learner in learners for question in learner.missed)
    counted = {
        "Median tries, by task": most(tries),
        "Median minutes, by task": most(minutes),
        "Learners who stopped, by task": most(stops(learners)),
        "Learners who broke a rule first": most(rules),
        "Learners who missed a prediction": most(missed),
    }
    return [
        bars(title, values, {name: f"{value:.3g}" for name, value in values.items()}, others=[0])
        for title, values in counted.items()
        if values
    ]


def most(values: Mapping[str, float]) -> dict[str, float]:
    """Return the largest values in descending order."""
    chosen = sorted(values, key=lambda name: -values[name])[:MOST]
    return {name: values[name] for name in chosen if values[name]}


def stops(learners: Iterable[Learner]) -> Counter[str]:
    return Counter(learner.stopped for learner in learners if learner.stopped)


def to_improve(learners: Sequence[Learner]) -> list[str]:
    """Return a sentence about each of the three tasks where the most learners stopped; more tries break ties."""
    stopped, tasks = stops(learners), by_task(learners)
    tries = {task: median(one.tries for one in found) for task, found in tasks.items()}
    first = sorted(tasks, key=lambda task: (-stopped[task], -tries[task]))[:3]
    return [
        f"{number}. labs/{lab_folder(int(task.partition('.')[0]))}/README.md, task {task}: {stopped[task]} of "
        f"{len(tasks[task])} stopped there, half of them tried at least {tries[task]:g} times, and "
        f"{sum(one.hints > 0 for one in tasks[task])} took a hint."
        for number, task in enumerate(first, start=1)
    ]


def as_html(learners: Sequence[Learner], *, names: bool) -> str:
    """Return the page. The page needs no network and no scripts."""
    drawn = "".join(f"<section>{picture.html()}</section>" for picture in pictures(learners))
    texts = "".join(f"<p>{escape(line)}</p>" for line in to_improve(learners))
    rows = "".join(
        f"<tr><td>{escape(one.name)}</td><td>{sum(task.has_passed for task in one.tasks.values())}</td>"
        f"<td>{escape(one.stopped or '-')}</td></tr>"
        for one in learners
    )
    head = "<tr><th>learner</th><th>tasks passed</th><th>stopped at</th></tr>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Where a class stops</title><style>{STYLE}</style><h1>Where a class stops</h1>"
        f"<p>{len(learners)} learners with a history. A gap of more than 20 minutes counts as 20.</p>{drawn}"
        f"<h2>Improve first</h2>{texts}{f'<table>{head}{rows}</table>' if names else ''}</html>\n"
    )
