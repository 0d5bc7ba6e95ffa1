"""The page's sections on the server show what the records hold, also where something is missing or wrong."""

from typing import Any

from tools.benchmarks.serving import serving


def server(*probed: tuple[float, float, bool]) -> dict[str, Any]:
    names = ("rate", "p99_ttft", "holds")
    search = {"bound": 1.0, "probed": [dict(zip(names, one, strict=True)) for one in probed]}
    return {"rate_search": search, "report": {"output_throughput": 1234.5}}


def record(**fields: Any) -> dict[str, Any]:
    aims = [
        {"text": "three times the rate", "found": 2.91, "met": False},
        {"text": "nothing found", "found": None, "met": False},
        {"text": "cheap HTTP", "found": 0.0987, "met": True},
    ]
    return {"model": "embedded", "servers": {}, "missing": {}, "http_cost": None, "aims": aims} | fields


def test_the_highest_rate_that_held_stands_beside_the_lowest_that_did_not() -> None:
    servers = {
        "mini-vllm": server((40.0, 0.06, True), (80.0, 1.2, False), (56.0, 0.24, True), (67.0, 1.5, False)),
        "never-held": server((10.0, 4.0, False)),
        "always-held": server((10.0, 0.5, True)),
    }
    text = serving([record(servers=servers, missing={"openvino": "no environment"})])
    assert "### embedded\n" in text
    assert "| mini-vllm | 56.0 | 67.0 | 240 ms of 1,000 | 1,234 |" in text
    assert "| never-held | none | 10.0 |  | 1,234 |" in text
    assert "| always-held | 10.0 |  | 500 ms of 1,000 | 1,234 |" in text
    assert "openvino is missing: no environment\n" in text
    assert "streams computed at once" not in text


def test_aims_are_met_missed_or_not_found() -> None:
    text = serving([record()])
    assert "| three times the rate | 2.91 | **missed** |" in text
    assert "| nothing found | not found | **missed** |" in text
    assert "| cheap HTTP | 0.0987 | met |" in text


def test_the_cost_of_http_is_that_of_the_median_round() -> None:
    cost = {"offline": [4000.0, 4400.0, 4200.0], "streamed": [3000.0, 3900.0, 3800.0], "ratio": 0.886}
    text = serving([record(http_cost=cost | {"num_equal": 767, "num_compared": 768})])
    assert "3,800 tokens/s through HTTP, 4,200 offline (medians of 3 rounds in turns)" in text
    assert ", in the median round 0.89 of it; 767 of 768 answers are the same." in text
