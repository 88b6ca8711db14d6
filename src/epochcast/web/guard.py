"""`Guard`: who may ask, and what a browser may do with the answer.

The page is read only, so there are two things to protect: that nobody else reads it, and that nothing written in a log
runs in the browser. A site elsewhere on the web can make a browser ask us (DNS rebinding gives it an address of ours
under a name of its own), so the name that was asked for and the page that asks are checked.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass
from functools import cache
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_ASK_FOR_TOKEN = "This page needs its token. Open the address that epochcast printed, with ?token= and all.\n"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach a server there."""
    return host in _LOOPBACK_NAMES


@dataclass(frozen=True)
class Access:
    """Where the page is served, and the token that it asks for, if any."""

    host: str
    port: int
    token: str | None

    @property
    def cookie(self) -> str:
        """Its name: browsers keep one set of cookies for all ports of a host."""
        return f"epochcast-{self.port}"

    def knows(self, host: str) -> bool:
        """Whether a request may name this host. A number cannot be rebound, a name elsewhere can."""
        if is_loopback(self.host):
            return host in _LOOPBACK_NAMES
        if host in _LOOPBACK_NAMES or host in {self.host.lower(), *_names_of_this_machine()}:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def allows(self, token: str | None) -> bool:
        """Whether this is the token, in a time that tells nothing about it."""
        if self.token is None:
            return True
        return token is not None and secrets.compare_digest(token.encode(), self.token.encode())


@cache
def _names_of_this_machine() -> set[str]:
    """Asked once, as the answer may come from afar."""
    return {socket.gethostname().lower(), socket.getfqdn().lower()}


class Guard:
    """Middleware: lets a request through or answers it with a refusal, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This page can only be read.\n", 405, {"allow": "GET, HEAD"})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.access.knows(host_of(hosts[0])):
            return PlainTextResponse("This server does not go by that name.\n", 421)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != hosts[0].lower():
            return PlainTextResponse("Another site may not read this page.\n", 403)
        return self._refusal_without_token(scope, headers)

    def _refusal_without_token(self, scope: Scope, headers: Headers) -> Response | None:
        if self.access.token is None:
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        asked = query.pop("token", [None])[0]
        if asked is not None and self.access.allows(asked):
            return self._with_cookie(scope, query)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self.access.cookie)
        if self.access.allows(cookie) or self.access.allows(bearer):
            return None
        return PlainTextResponse(_ASK_FOR_TOKEN, 401)

    def _with_cookie(self, scope: Scope, query: dict[str, list[str]]) -> Response:
        """The same address without the token, which is kept in a cookie that scripts cannot read."""
        assert self.access.token is not None
        rest = urlencode(query, doseq=True)
        path = "/" + scope["path"].lstrip("/\\")  # two slashes would name another host
        answer = RedirectResponse(path + ("?" + rest if rest else ""), 303)
        answer.set_cookie(self.access.cookie, self.access.token, httponly=True, samesite="lax", path="/")
        return answer


def host_of(header: str) -> str:
    """The host of a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""
