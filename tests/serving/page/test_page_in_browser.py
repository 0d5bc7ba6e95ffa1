"""The page in a browser: chats that answer, and an engine to watch, pause and replay."""

import json
import time
from dataclasses import replace
from typing import Any

from mini_vllm_labs.serving.live.recent_steps import progress_of
from tests.chromium import measure
from tests.serving.page.conftest import SMALL, send, send_and_wait
from tests.serving.running import PATIENCE, ServerUnderTest, serving, wait_until


def pause(page: Any) -> None:
    page.locator("#pause").click()
    page.wait_for_selector("body.paused")


def set_pace(page: Any, name: str) -> None:
    page.select_option("#pace", label=name)


def crowd(page: Any, rate: float) -> None:
    page.locator("#crowd").evaluate("(one, rate) => { one.value = rate; one.oninput(); }", rate)


def step_of(page: Any) -> int:
    return int(page.locator("#picture").get_attribute("data-step"))


def num_steps(server: ServerUnderTest) -> int:
    return server.call(progress_of)["newest"] + 1


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true. The page's content security policy forbids playwright's own way of waiting."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not within {PATIENCE:g} seconds: {expression}"
        page.wait_for_timeout(20)


def until_step(page: Any, step: int) -> None:
    until(page, f"document.getElementById('picture').dataset.step === '{step}'")


def held_at(page: Any, server: ServerUnderTest) -> int:
    """Return the step at which the engine is paused, once the page shows it."""
    page.wait_for_selector("body.paused")
    held = num_steps(server) - 1
    until_step(page, held)
    return held


def test_a_chat_answers_and_the_stream_shows_its_steps(page: Any, server: ServerUnderTest) -> None:
    before = num_steps(server)
    send(page, "tell me something", max_tokens=24)
    answer = page.locator(".answer")
    answer.locator(".bill").wait_for()
    assert len(answer.locator(".text").text_content()) == 24, "the fake model writes a letter per token"
    assert "24 tokens" in answer.locator(".figures").text_content()
    assert "first token after" in answer.locator(".figures").text_content()
    bill = answer.locator(".bill").text_content()
    # The chat template takes up 38 bytes: 38 + 23 slots fill 4 blocks of 16.
    assert "4 blocks at most" in bill
    assert "0 preemptions" in bill
    assert "24 steps" in bill
    page.wait_for_selector("#picture svg")
    until_step(page, before + 23)
    assert page.locator('[data-figure="running"] b').text_content() == "0"
    assert page.locator("#sentence").text_content().startswith("Finished, blocks freed:")
    letter = answer.locator(".tile").text_content()
    rows = page.locator('#picture [data-layer^="head-"]').all_text_contents()
    assert any(row.startswith(f"{letter}: ") for row in rows)
    assert page.locator("#picture svg").get_attribute("aria-label").startswith("Step ")


def test_what_the_server_would_refuse_cannot_be_clicked_before_it_knows_the_page(open_page: Any, server: Any) -> None:
    asked: list[Any] = []
    page = open_page(server, stream=lambda route: asked.append(route))  # playwright does not accept a builtin
    controls = [page.locator(name) for name in ("#pause", "#step", "#pace", "#crowd", "#show-me")]
    while not asked:
        page.wait_for_timeout(20)
    assert all(control.is_disabled() for control in controls)
    page.locator("#engine").press("Space")
    asked[0].continue_()
    page.wait_for_selector("#connection[data-state=open]")
    assert all(control.is_enabled() for control in controls)
    assert not server.llm.is_paused
    page.close()


def test_pause_stops_the_steps_and_a_single_step_is_exactly_one(page: Any, server: ServerUnderTest) -> None:
    set_pace(page, "20 steps/s")
    send(page, max_tokens=400)
    until(page, "document.getElementById('picture').dataset.step")
    page.get_by_role("button", name="pause the engine for everybody").click()
    page.get_by_role("button", name="let the engine go on").wait_for()
    held = held_at(page, server) + 1
    length = len(page.locator(".answer .text").text_content())
    page.wait_for_timeout(400)
    assert num_steps(server) == held
    for number in range(1, 4):
        page.get_by_role("button", name="Step").filter(has_text="Step").click()
        until_step(page, held - 1 + number)
        assert num_steps(server) == held + number
    until(page, f"document.querySelector('.answer .text').textContent.length === {length + 3}")
    assert page.locator("#place").text_content() == "paused"
    page.get_by_role("button", name="let the engine go on").click()
    wait_until(lambda: num_steps(server) > held + 5, "the engine goes on")
    assert page.locator("#pace").evaluate("(menu) => menu.selectedOptions[0].textContent") == "20 steps/s"
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped").wait_for()


def test_requests_that_arrive_while_the_engine_is_held_are_shown(page: Any) -> None:
    send_and_wait(page, max_tokens=2)
    pause(page)
    send(page)
    until(page, "document.getElementById('place').textContent === 'paused, 1 arrived since'")
    assert "waits for its first token" in page.locator(".answer .figures").last.text_content()


def test_the_followed_request_stands_out(page: Any) -> None:
    set_pace(page, "20 steps/s")
    page.click("#add-chat")
    page.check("#to-all")
    send(page, max_tokens=300)
    until(page, "document.querySelectorAll('#tabs .tile').length === 2")
    pause(page)
    page.locator(".panel.chosen .answer .request").click()
    letter = page.locator(".panel.chosen .answer .tile").text_content()
    page.wait_for_selector("#picture .mv-followed")
    followed = set(page.locator("#picture .mv-followed").evaluate_all("(all) => all.map((one) => one.dataset.request)"))
    dim = set(page.locator("#picture .mv-dim").evaluate_all("(all) => all.map((one) => one.dataset.request)"))
    number = page.locator("#picture").evaluate(
        "(one) => one.querySelector('.mv-followed').dataset.request.split(' ')[0]"
    )
    assert all(number in names.split() for names in followed), "a shared block is followed, too"
    assert dim
    assert not any(number in names.split() for names in dim)
    assert page.locator("#about").text_content().startswith(f"{letter}: ")
    assert page.locator("#follow").evaluate("(menu) => menu.selectedOptions[0].textContent") == f"request {letter}"
    page.click("#step")
    page.wait_for_selector("#picture .mv-followed")
    other = page.locator("#tabs .tile").first.text_content()
    page.select_option("#follow", label=f"request {other}")
    until(page, f"document.getElementById('about').textContent.startsWith('{other}: ')")
    page.select_option("#follow", label="no request")
    until(page, "!document.querySelector('#picture .mv-dim')")
    block = page.locator("#picture [data-layer^='block-']").first
    block.click()
    until(page, "document.getElementById('about').textContent.startsWith('block 1: ')")
    page.keyboard.press("Escape")


def test_replay_looks_back_fifty_steps_while_the_engine_goes_on(page: Any, server: ServerUnderTest) -> None:
    send_and_wait(page, max_tokens=120)
    set_pace(page, "20 steps/s")
    send(page, max_tokens=400)
    until(page, "document.querySelectorAll('.answer .tile').length === 2")
    start = step_of(page)
    page.locator("#at").evaluate("(one, step) => { one.value = step; one.oninput(); }", start - 50)
    until_step(page, start - 50)
    assert page.locator("#live").get_attribute("aria-pressed") == "false"
    assert page.locator(".top").bounding_box()["width"] == 1280, "the page stays as it is"
    wait_until(lambda: num_steps(server) > start + 8, "the engine goes on")
    until(page, f"Number(document.getElementById('at').max) > {start + 5}")
    assert step_of(page) == start - 50
    assert "steps ago" in page.locator("#place").text_content()
    page.get_by_role("button", name="previous step").click()
    until_step(page, start - 51)
    page.locator("#picture [data-go-to]").first.dispatch_event("click")
    until(page, f"Number(document.getElementById('picture').dataset.step) < {start - 51}")
    page.get_by_role("button", name="Live").click()
    until(page, f"Number(document.getElementById('picture').dataset.step) > {start}")


def test_a_crowd_makes_requests_wait(page: Any, server: ServerUnderTest) -> None:
    set_pace(page, "20 steps/s")
    crowd(page, 20)
    until(page, "document.querySelector('[data-figure=running] b')?.textContent === '4'")
    until(page, "Number(document.querySelector('[data-figure=waiting] b').textContent) >= 3")
    assert page.locator("#picture [data-layer='waiting'] [data-request]").count() >= 2
    assert page.locator("#crowd-about").text_content() == "20 requests per second"
    send(page, max_tokens=4)
    crowd(page, 0)
    until(page, "document.getElementById('crowd-about').textContent === 'no requests'")
    set_pace(page, "full speed")
    page.locator(".bill").wait_for()
    assert "waited" in page.locator(".bill").text_content()


def test_a_chat_that_waits_can_be_followed(page: Any, server: ServerUnderTest) -> None:
    pause(page)
    crowd(page, 20)
    wait_until(lambda: len(waiting(server)) > SMALL.max_num_seqs, "the crowd is more than the engine runs")
    crowd(page, 0)
    send(page, max_tokens=4)
    wait_until(lambda: any(not name.startswith("crowd") for name in waiting(server)), "the chat's request arrives")
    page.get_by_role("button", name="Step").filter(has_text="Step").click()
    page.locator(".answer .request").click()
    letter = page.locator(".answer .tile").text_content()
    until(page, f"document.getElementById('about').textContent.startsWith('{letter}: waiting, 0 of 23 tokens')")
    assert page.locator(".answer .text").text_content() == ""
    assert page.locator("#picture [data-layer='waiting'] .mv-followed").count() == 1
    set_pace(page, "full speed")
    page.locator(".bill").wait_for()


def waiting(server: ServerUnderTest) -> list[str]:
    return server.call(lambda engine: [request.request_id for request in engine.scheduler.waiting])


def test_several_chats_answer_at_once_and_each_has_its_letter(page: Any) -> None:
    set_pace(page, "20 steps/s")
    for _ in range(3):
        page.click("#add-chat")
    assert page.locator("#add-chat").is_hidden(), "more streams than that a browser does not open"
    page.check("#to-all")
    send(page, max_tokens=12)
    until(page, "document.querySelectorAll('.bill:not([hidden])').length === 4")
    until(page, "document.querySelectorAll('#tabs .tile').length === 4")
    assert len(set(page.locator("#tabs .tile").all_text_contents())) == 4
    page.locator("#tabs [role=tab]").nth(1).click()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#tabs [aria-selected=true]").text_content().endswith("chat 1")


def test_the_keyboard_is_enough(page: Any, server: ServerUnderTest) -> None:
    assert page.evaluate("document.activeElement.id") == "message"
    page.fill("#max-tokens", "300")
    page.focus("#message")
    page.keyboard.type("hello")
    page.locator("#pace").select_option(label="20 steps/s")
    page.focus("#message")
    page.keyboard.press("Enter")
    until(page, "Number(document.getElementById('picture').dataset.step) > 4")
    page.focus("#engine")
    page.keyboard.press("Space")
    held = held_at(page, server)
    page.keyboard.press("Enter")
    until_step(page, held + 1)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    until(page, f"document.getElementById('picture').dataset.step < '{held + 1}'")
    page.keyboard.press("End")
    until_step(page, held + 1)
    rings = measure(page, "rings")
    assert [name for name, ring in rings if ring == "none"] == []
    assert len(rings) > 10


def test_the_picture_has_a_twin_in_words(page: Any) -> None:
    send_and_wait(page, max_tokens=3)
    page.locator("#twin summary").click()
    until(page, "document.getElementById('text').textContent.includes('free queue, next first: ')")
    lines = dict(line.split(": ", 1) for line in page.locator("#text").text_content().splitlines())
    assert lines["running"] == "none"
    assert lines["memory"].endswith("of 120 blocks of 16 slots held")
    assert lines["what happened"] == page.locator("#sentence").text_content()
    until(page, f"document.getElementById('spoken').textContent.endsWith('{lines['what happened']}')")
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"
    page.locator("#meaning").click()
    assert "prefill" in page.locator("#legend").text_content()


def test_everything_fits_at_every_width_and_no_text_is_small(page: Any) -> None:
    crowd(page, 10)
    page.click("#add-chat")
    send(page, "x" * 300, max_tokens=200)
    page.wait_for_selector("#picture svg")
    for width, height in ((1280, 800), (600, 900), (900, 700), (2200, 1200)):
        page.set_viewport_size({"width": width, "height": height})
        until(
            page,
            "() => { const room = document.getElementById('picture').clientWidth;"
            " const drawn = document.querySelector('#picture svg').viewBox.baseVal.width;"
            " return Math.abs(Math.min(1100, room) - drawn) <= 20 || drawn === 1100; }",
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width >= 1280:
            assert page.evaluate("document.documentElement.scrollHeight") <= height, "one screen"
            assert page.locator("#engine").evaluate("(one) => one.scrollHeight - one.clientHeight") <= 1
        outside = page.evaluate(
            "[...document.querySelectorAll('.engine > *, .chats > *')].filter((one) => one.getClientRects().length"
            " && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.id || one.className)"
        )
        assert outside == []
        assert measure(page, "smallTexts") == []


def test_nothing_moves_if_the_visitor_prefers_that(fresh_server: ServerUnderTest, open_page: Any) -> None:
    for motion, condition in (("no-preference", "window.moved > 0"), ("reduce", "window.moved === 0")):
        page = open_page(fresh_server, reduced_motion=motion)
        page.wait_for_selector("#connection[data-state=open]")
        page.evaluate(
            "() => { window.moved = 0; const animate = Element.prototype.animate;"
            " Element.prototype.animate = function (...all) { window.moved += 1; return animate.apply(this, all); }; }"
        )
        page.evaluate(SLOWLY)
        start = num_steps(fresh_server)
        send(page, max_tokens=40)
        until(page, f"Number(document.getElementById('picture').dataset.step) >= {start + 2}")
        until(page, condition)
        page.close()


SLOWLY = """() => fetch('live/pace', { method: 'POST', headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ steps_per_second: 2 }) }).then((answer) => answer.ok)"""


def test_errors_are_explained_with_a_way_on(server: ServerUnderTest, open_page: Any) -> None:
    page = open_page(server, expected="Failed to load resource")
    page.wait_for_selector("#connection[data-state=open]")

    def refuse(status: int, message: str) -> None:
        body = json.dumps({"error": {"message": message, "type": "t", "param": None, "code": "c"}})
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=status, body=body))

    for status, message, words in (
        (429, "1024 requests wait", "The waiting queue is full: 1024 requests wait."),
        (503, "the server is shutting down", "The server takes no requests now: the server is shutting down."),
    ):
        refuse(status, message)
        send(page)
        page.get_by_text(words).wait_for()
        page.unroute("**/v1/chat/completions")
        page.get_by_role("button", name="Ask again").last.click()
        page.locator(".answer").last.locator(".bill").wait_for()
    page.fill("#max-tokens", "99999")
    page.fill("#message", "hello")
    page.locator("#message").press("Enter")
    page.get_by_role("button", name="Clear this chat").last.wait_for()
    page.get_by_role("button", name="Clear this chat").last.click()
    page.get_by_text("For example:").wait_for()


def test_the_first_seconds_never_say_that_nothing_happens_beside_a_chat(open_page: Any, fresh_server: Any) -> None:
    page = open_page(fresh_server)
    until(page, "document.querySelector('#picture .empty b')?.textContent.includes('nothing to do')")
    fresh_server.llm.pause()
    send(page, "abc")
    assert "nothing to do" not in page.locator("#picture").inner_text(), "at once, before the server has answered"
    until(page, "document.querySelector('.busy') !== null")
    assert "nothing to do" not in page.locator("#picture").inner_text()
    fresh_server.llm.resume()
    page.wait_for_selector("#picture svg")
    page.close()


def test_a_preemption_is_shown_on_demand_and_few_requests_are_listed(open_page: Any) -> None:
    with serving(replace(SMALL, max_num_seqs=16, num_gpu_blocks=33)) as server:
        page = open_page(server)
        page.locator("#show-me").click()
        page.wait_for_selector("body.paused")
        page.wait_for_selector("#show-me:enabled")
        until(page, "document.getElementById('sentence').textContent.includes('preempt')")
        assert " wait" in page.locator("#waits:not([hidden]) p").text_content()
        assert "victim" in page.locator("#waits .shares").text_content()
        assert 0 <= step_of(page) <= server.call(progress_of)["preempted"]
        assert page.locator("#follow option").count() <= 42
        page.close()


def test_a_call_that_takes_long_stands_above_the_page_until_it_ends(open_page: Any, fresh_server: Any) -> None:
    page = open_page(fresh_server)
    page.wait_for_selector("#connection[data-state=open]")
    fresh_server.llm._notify("One call into your code\n  labs/phase1:3, in schedule_step")
    page.wait_for_selector("#death:not([hidden])")
    assert page.locator("#death").text_content() == "One call into your code\n  labs/phase1:3, in schedule_step"
    fresh_server.llm._notify("")
    page.wait_for_selector("#death[hidden]", state="attached")
    page.close()


def test_the_death_of_the_engine_stands_above_the_page(open_page: Any, fresh_server: Any) -> None:
    page = open_page(fresh_server)
    page.wait_for_selector("#connection[data-state=open]")
    fresh_server.llm._host.give_up("your code was still running\n  labs/phase1:3, in schedule_step")
    page.wait_for_selector("#death:not([hidden])")
    assert "restart the server.\nyour code was still running\n  labs/phase1:3" in page.locator("#death").text_content()
    page.close()


def test_a_first_visit_is_slow_enough_to_watch_and_a_second_one_is_not(open_page: Any, fresh_server: Any) -> None:
    for first, pace in ((True, "20 steps/s"), (False, "full speed")):
        page = open_page(fresh_server, first=first)
        send_and_wait(page, max_tokens=8)
        assert page.locator("#pace").evaluate("(menu) => menu.selectedOptions[0].textContent") == pace
        page.close()
        wait_until(lambda: not fresh_server.llm.is_paused, "the engine runs again when the page is closed")


def test_four_chats_and_the_whole_sentence_fit_on_a_laptop_and_on_a_phone(open_page: Any) -> None:
    with serving(replace(SMALL, max_num_seqs=16)) as server:
        page = open_page(server, viewport={"width": 390, "height": 844})
        page.wait_for_selector("#connection[data-state=open]")
        for _ in range(3):
            page.click("#add-chat")
        page.check("#to-all")
        page.locator("#show-me").click()
        page.wait_for_selector("body.paused")
        page.wait_for_selector("#show-me:enabled")
        until(page, "document.getElementById('sentence').textContent.includes('preempt')")
        assert all(high >= 24 for high in page.locator("input[type=range]").evaluate_all(HEIGHTS))
        assert page.locator("#picture svg").evaluate("(one) => one.viewBox.baseVal.width") <= 358, "no text is shrunk"
        send(page, max_tokens=4)
        page.click("#live")
        page.click("#step")
        until(page, "document.querySelectorAll('#tabs .tile').length === 4")
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.locator(".told, .tabs").evaluate_all(CUT) == []
        page.close()


HEIGHTS = "(all) => all.map((one) => one.getBoundingClientRect().height)"
CUT = "(all) => all.filter((one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth)"
