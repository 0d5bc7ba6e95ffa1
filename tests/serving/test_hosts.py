"""Another site's page in the browser cannot reach the server through a name that resolves to this machine."""

import httpx
import pytest

from mini_vllm_labs.serving.limits import KnownHosts
from mini_vllm_labs.serving.settings import ServerSettings
from tests.serving.running import RawConnection, ServerUnderTest, serve_command, serving

PATHS = ("/", "/live/page/page.js", "/health", "/metrics", "/v1/models", "/live/stream", "/nothing")
FOREIGN = (
    "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "8.8.8.8", "[::2]", "",
    "localhost@evil.example", "localhost/evil.example", "evil.example#localhost", "[localhost", "localhost,evil",
)  # fmt: skip
OWN = ("localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:1", "[::1]", "[::1]:8000")


def status_of(server: ServerUnderTest, *headers: str, path: str = "/health") -> int:
    with RawConnection(server) as connection:
        connection.send("\r\n".join([f"GET {path} HTTP/1.1", *headers, "Connection: close", "", ""]).encode())
        return int(connection.read_until(b"\r\n\r\n").split()[1])


@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_name_is_refused_everywhere(server: ServerUnderTest, path: str) -> None:
    assert status_of(server, "Host: evil.example", path=path) == 403
    assert status_of(server, "Host: localhost", "Origin: http://evil.example", path=path) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_take_the_seats_of_the_live_page(server: ServerUnderTest, site: str) -> None:
    assert status_of(server, "Host: localhost", f"Sec-Fetch-Site: {site}", path="/live/stream") == 403


@pytest.mark.parametrize("host", FOREIGN)
def test_names_that_are_not_this_servers(server: ServerUnderTest, host: str) -> None:
    assert status_of(server, f"Host: {host}") in (400, 403)
    assert status_of(server, "Host: localhost", f"Host: {host}") in (400, 403), "one of two is enough"
    assert status_of(server, "Host: localhost", f"Origin: http://{host}") in (400, 403)


@pytest.mark.parametrize("origin", ["null", "", "file://", "localhost", "http:/localhost"])
def test_a_page_without_an_origin_of_this_server(server: ServerUnderTest, origin: str) -> None:
    assert status_of(server, "Host: localhost", f"Origin: {origin}") == 403


@pytest.mark.parametrize("host", OWN)
def test_its_own_names_are_known(server: ServerUnderTest, host: str) -> None:
    assert status_of(server, f"Host: {host}", f"Origin: http://{host}") == 200


def is_known(settings: ServerSettings, host: str) -> bool:
    return KnownHosts(None, settings)._is_known(f"//{host}")  # type: ignore[arg-type]


def test_a_server_for_other_machines_is_known_by_any_address_and_by_the_names_it_is_given() -> None:
    everywhere = ServerSettings(host="0.0.0.0", allowed_hosts=("lab.example",))
    known = ("192.168.1.5:8000", "[fe80::1]", "lab.example", "LAB.example:80")
    assert all(is_known(everywhere, host) for host in known)
    assert not any(is_known(ServerSettings(host=bound), host) for bound in ("0.0.0.0", "") for host in FOREIGN[:4])
    assert not any(is_known(ServerSettings(host=""), host) for host in ("", "a@b", "a/b", "[a"))
    assert is_known(ServerSettings(host="Machine.local"), "machine.local:8000")
    with serving(allowed_hosts=("*",)) as server:
        assert status_of(server, "Host: evil.example") == 200


def test_the_page_cannot_be_put_in_a_frame(server: ServerUnderTest) -> None:
    headers = httpx.get(server.address).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


def test_the_router_refuses_them_too_and_a_page_by_an_allowed_name_reaches_a_replica() -> None:
    with serve_command("--data-parallel-size", "2", "--allowed-host", "lab.example") as (_, address):
        assert httpx.get(f"{address}/v1/models", headers={"Host": "evil.example"}).status_code == 403
        headers = {"Host": "lab.example", "Origin": "http://lab.example"}
        assert httpx.post(f"{address}/tokenize", json={"prompt": "abc"}, headers=headers).json()["count"] == 3
