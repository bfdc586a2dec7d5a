"""What the `http` tool may call: rules about names and addresses, held at the connection itself."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from services.worker.settings import read_settings
from services.worker.tools.http import HttpTool
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import DeniedError, Guard, guard_of, hosts_of
from services.worker.tools.http_network import resolved
from shared.contracts.outcomes import Outcome
from shared.runtime.config import SettingsError
from tests.support.http_server import Answer, HttpServer, Request, answer_json
from tests.support.raw_server import RawServer
from tests.unit.worker.given import a_call


class Names:
    """Names and addresses as a test says; one answer after the other, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def called(guard: Guard, names: Names | None = None, **config: Any) -> Outcome:
    tool = HttpTool(Exchange(guard, resolve=names or resolved))
    try:
        return await tool.run(a_call({"timeout": {"connect": "5s", "total": "10s"}, **config}))
    finally:
        await tool.close()


def assert_denied(outcome: Outcome, host: str) -> None:
    assert outcome.status == "error"
    assert outcome.error is not None
    error = outcome.error
    assert (error["kind"], error["retryable"], error["code"]) == ("client_error", False, "denied")
    assert host in outcome.error["message"]
    assert "REDRIVE_HTTP_DENY" in outcome.error["message"]
    assert "s3cret" not in json.dumps(outcome.as_json())


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.170.2",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.0xfe.0xa9.0xfe",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[::a9fe:a9fe]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
    ],
)
async def test_metadata_services_are_denied_in_whatever_way_they_are_written(host: str) -> None:
    outcome = await called(Guard(), url=f"http://me:s3cret@{host}/?key=s3cret")

    assert_denied(outcome, host.strip("[]"))


@pytest.mark.parametrize("host", ["metadata.google.internal", "METADATA.google.internal.", "metadata.goog"])
async def test_a_metadata_service_is_denied_by_its_name_whatever_it_resolves_to(host: str) -> None:
    async with HttpServer(answer_json({})) as server:
        port = server.url.rpartition(":")[2]
        outcome = await called(Guard(), Names(["127.0.0.1"]), url=f"http://{host}:{port}/")

    assert_denied(outcome, host.lower())
    assert server.requests == []


async def test_the_loopback_and_private_networks_are_open_unless_denied() -> None:
    async with HttpServer(answer_json({"ok": 1})) as server:
        outcome = await called(Guard(), url=server.url)

    assert outcome.status == "success"
    for address in ("10.0.0.1", "192.168.1.1", "172.16.0.1", "fd00::1", "8.8.8.8", "2606:4700::1"):
        assert Guard().permitted("host", [address]) == [address]


LOOPBACK = guard_of(["127.0.0.0/8", "::1"], [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "0",
        "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "LOCALHOST",
    ],
)  # fmt: skip
async def test_what_leads_to_a_denied_address_is_denied(host: str) -> None:
    async with HttpServer(answer_json({})) as server:
        port = server.url.rpartition(":")[2]
        outcome = await called(LOOPBACK, url=f"http://{host}:{port}/")

    assert_denied(outcome, host.strip("[]").lower())
    assert server.requests == []


async def test_an_octal_address_is_no_url_and_if_it_were_it_would_be_denied() -> None:
    outcome = await called(LOOPBACK, url="http://0177.0.0.1:1/")

    assert outcome.error is not None
    assert outcome.error["kind"] == "expression"
    with pytest.raises(DeniedError):
        LOOPBACK.permitted("0177.0.0.1", await resolved("0177.0.0.1", 80))


@pytest.mark.parametrize("allow", ["127.0.0.1", "127.0.0.0/30", "here.test", "*.test"])
async def test_what_is_allowed_is_called_although_it_is_denied(allow: str) -> None:
    guard = guard_of(["0.0.0.0/0", "::/0", "here.test"], [allow])
    async with HttpServer(answer_json({"ok": 1})) as server:
        port = server.url.rpartition(":")[2]
        outcome = await called(guard, Names(["127.0.0.1"]), url=f"http://here.test:{port}/")

    assert outcome.status == "success", outcome.error


async def test_of_several_addresses_only_those_that_are_permitted_are_called() -> None:
    async with HttpServer(answer_json({"ok": 1})) as server:
        port = server.url.rpartition(":")[2]
        outcome = await called(Guard(), Names(["169.254.169.254", "127.0.0.1"]), url=f"http://both.test:{port}/")

    assert outcome.status == "success", outcome.error
    with pytest.raises(DeniedError):
        Guard().permitted("both.test", ["169.254.169.254", "fe80::1%2"])


async def test_the_address_that_was_checked_is_the_one_that_is_called() -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    async with HttpServer(answer_json({"ok": 1})) as server:
        port = server.url.rpartition(":")[2]
        tool = HttpTool(Exchange(Guard(), resolve=names))
        first = await tool.run(a_call({"url": f"http://fickle.test:{port}/"}))
        kept = await tool.run(a_call({"url": f"http://fickle.test:{port}/"}))
        await tool.close()
        again = await called(Guard(), names, url=f"http://fickle.test:{port}/")

    assert (first.status, kept.status) == ("success", "success")
    assert server.connections == 1
    assert server.requests[0].headers["host"] == f"fickle.test:{port}"
    assert names.asked == ["fickle.test"] * 2
    assert_denied(again, "fickle.test")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_denied_address_is_not_followed(status: int) -> None:
    hops: list[str] = []

    def script(request: Request) -> Answer:
        hops.append(request.path)
        if request.path == "/first":
            return answer_json({}, status, Location="/second")
        return answer_json({}, status, Location="http://169.254.169.254/latest/meta-data/?s3cret")

    async with HttpServer(script) as server:
        outcome = await called(Guard(), url=f"{server.url}/first")

    assert_denied(outcome, "169.254.169.254")
    assert hops == ["/first", "/second"]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with HttpServer(answer_json({"from": "proxy"})) as proxy, HttpServer(answer_json({"from": "it"})) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        outcome = await called(Guard(), url=server.url)

    assert outcome.result["body"] == {"from": "it"}
    assert proxy.requests == []


def certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file of a certificate of one's own for a name, and the context of a server that has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.9"))])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return file, context


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


async def test_tls_speaks_to_the_name_and_not_to_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, context = certificate(tmp_path, "secure.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with RawServer(OK, tls=context) as server:
        outcome = await called(Guard(), Names(["127.0.0.1"]), url=f"https://secure.test:{server.port}/")
        other = await called(Guard(), Names(["127.0.0.1"]), url=f"https://other.test:{server.port}/")

    assert outcome.status == "success", outcome.error
    assert outcome.result["body"] == "ok"
    assert server.names == ["secure.test", "other.test"]
    assert f"Host: secure.test:{server.port}".encode() in server.heads[0]
    assert other.error is not None
    assert other.error["kind"] == "connection"
    assert "certificate" in other.error["message"]


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    _, context = certificate(tmp_path, "secure.test")
    async with RawServer(OK, tls=context) as server:
        outcome = await called(Guard(), Names(["127.0.0.1"]), url=f"https://secure.test:{server.port}/")

    assert outcome.error is not None
    assert "certificate" in outcome.error["message"]
    assert server.heads == []


GIVEN = {"REDRIVE_DEV": "1"}


def test_the_rules_come_from_the_environment() -> None:
    settings = read_settings({**GIVEN, "REDRIVE_HTTP_DENY": "10.0.0.0/8, *.corp ", "REDRIVE_HTTP_ALLOW": "10.1.2.3"})
    guard = guard_of(settings.http_deny, settings.http_allow)

    assert guard.permitted("a.test", ["10.1.2.3", "10.9.9.9"]) == ["10.1.2.3"]
    for host, address in (("db.corp", "8.8.8.8"), ("a.b.corp", "8.8.8.8"), ("a.test", "169.254.169.254")):
        with pytest.raises(DeniedError):
            guard.permitted(host, [address])
    assert guard.permitted("corp", ["8.8.8.8"]) == ["8.8.8.8"]


@pytest.mark.parametrize("name", ["REDRIVE_HTTP_DENY", "REDRIVE_HTTP_ALLOW"])
@pytest.mark.parametrize("word", ["10.0.0.0/33", "10.0.0.1/8", "10.0.0", "a b", "::zz", "http://host/", "host:80"])
def test_a_rule_that_cannot_be_read_is_said_at_the_start(name: str, word: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read_settings({**GIVEN, name: f"127.0.0.1,{word}"})


def test_a_name_is_one_whatever_its_case_and_a_dot_at_its_end() -> None:
    hosts = hosts_of(["Host.Test.", "*.Below.test"])

    assert hosts.has_name("HOST.test")
    assert hosts.has_name("host.test.")
    assert hosts.has_name("a.b.below.test.")
    assert not hosts.has_name("below.test")
    assert not hosts.has_name("nothost.test")
