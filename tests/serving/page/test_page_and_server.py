"""The page and its server: nothing is drawn without a page, and each survives losing the other."""

import os
from collections.abc import Callable
from typing import Any

from tests.serving.page.conftest import SMALL, drawing_processes, send_and_wait
from tests.serving.running import ServerUnderTest, serving, wait_until


def test_closing_the_page_ends_the_drawing_the_crowd_and_the_pause(
    server: ServerUnderTest, open_page: Callable[..., Any]
) -> None:
    wait_until(lambda: not drawing_processes(), "nothing is drawn without a page")
    first, second = open_page(server), open_page(server)
    send_and_wait(first)
    second.wait_for_selector("#picture svg")
    assert len(drawing_processes()) == 1, "one process for all pages"
    first.locator("#crowd").evaluate("(one) => { one.value = 5; one.oninput(); }")
    wait_until(lambda: server.llm.num_unfinished_requests > 0, "the crowd comes")
    first.locator("#pause").click()
    wait_until(lambda: server.llm.is_paused, "the engine is held")
    first.close()
    second.wait_for_selector("body.paused")
    assert server.llm.is_paused, "the other page still holds it"
    second.locator(
        "#step"
    ).click()  # if a page is closed while it is being drawn, the drawing process stops; a new step starts it again
    wait_until(lambda: len(drawing_processes()) == 1, "the other page is drawn for")
    second.close()
    wait_until(lambda: not drawing_processes(), "the drawing has ended")
    wait_until(lambda: not server.llm.is_paused, "the engine goes on")
    wait_until(lambda: server.llm.num_unfinished_requests == 0, "the crowd has gone")


def test_the_page_asks_for_the_key_and_remembers_it(
    locked_server: ServerUnderTest, open_page: Callable[..., Any]
) -> None:
    page = open_page(locked_server, expected="Failed to load resource")
    for key in ("wrong", "sesame"):
        page.locator("#key-dialog[open]").wait_for()
        assert "needs the API key" in page.locator("#connection").text_content()
        page.fill("#key", key)
        page.get_by_role("button", name="Use it").click()
    send_and_wait(page)
    page.locator("#step").click()
    page.wait_for_selector("body.paused")
    page.reload()
    page.wait_for_selector("#connection[data-state=open]")
    page.wait_for_selector("#picture svg")


def test_the_page_says_that_the_server_is_gone_and_finds_it_again(open_page: Callable[..., Any]) -> None:
    with serving(SMALL) as server:
        page = open_page(server, expected="Failed to load resource")
        send_and_wait(page)
        port = int(server.address.rpartition(":")[2])
    page.wait_for_selector("#connection[data-state=lost]")
    page.get_by_text("The server does not answer").first.wait_for()
    page.fill("#message", "hello?")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Ask again").wait_for()
    with serving(SMALL, port=port):
        page.wait_for_selector("#connection[data-state=open]")
        page.get_by_role("button", name="Ask again").click()
        page.locator(".answer").last.locator(".bill").wait_for()
        page.close()


def test_a_drawing_that_is_killed_begins_again(server: ServerUnderTest, open_page: Callable[..., Any]) -> None:
    page = open_page(server)
    send_and_wait(page)
    page.wait_for_selector("#picture svg")
    [process] = drawing_processes()
    os.kill(process, 9)
    send_and_wait(page, "another one")
    wait_until(lambda: process not in drawing_processes() and len(drawing_processes()) == 1, "a new process draws")
    shown = page.locator("#picture").get_attribute("data-step")
    send_and_wait(page, "a third one")
    page.wait_for_selector(f"#picture:not([data-step='{shown}'])")


def test_a_visitor_does_not_hold_up_the_end_of_the_server(open_page: Callable[..., Any]) -> None:
    with serving(SMALL, shutdown_timeout=60) as server:
        page = open_page(server, expected="Failed to load resource")
        send_and_wait(page)
        page.locator("#pause").click()
        page.wait_for_selector("body.paused")
    assert not server.llm.is_alive
    page.wait_for_selector("#connection:is([data-state=lost], [data-state=problem])")
    wait_until(lambda: not drawing_processes(), "the drawing has ended with the server")
