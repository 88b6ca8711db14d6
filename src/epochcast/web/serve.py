"""Serves the page until the user interrupts."""

from __future__ import annotations

import errno
import math
import os
import secrets
import socket
import sys
import threading
import webbrowser

import uvicorn
from rich.console import Console

from epochcast.checks import cut
from epochcast.errors import InputError
from epochcast.watch import Watcher
from epochcast.web.app import App
from epochcast.web.feed import Feed
from epochcast.web.guard import Access, is_loopback
from epochcast.web.refresher import Refresher
from epochcast.web.run_queries import RunQueries

LOOPBACK, PORT = "127.0.0.1", 8421
_PORTS_TRIED = 20  # from the usual one on, where none was asked for
_TOKEN_BYTES = 24
_MOST_WAITING = 128  # connections
_BETWEEN_CHECKS = 0.5  # seconds


def serve(
    watcher: Watcher,
    console: Console,
    *,
    interval: float,
    host: str = LOOPBACK,
    port: int | None = None,
    ask_token: bool = False,
    open_browser: bool = True,
) -> None:
    """Serve the page on a host and a port. A host that others can reach asks for a token; so does `ask_token`."""
    if not 0.0 < interval < math.inf:
        raise InputError(f"interval={interval} must be a positive number of seconds")
    listening = _listen(host, port)
    token = secrets.token_urlsafe(_TOKEN_BYTES) if ask_token or not is_loopback(host) else None
    access = Access(host, listening.getsockname()[1], token)
    feed = Feed()
    refresher = Refresher(watcher, feed, interval)
    queries = RunQueries(feed, watcher.forecaster)
    server: uvicorn.Server | None = None
    app = App(feed, queries, lambda: server is not None and server.should_exit).guarded(access)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    _announce(access, console, open_browser)
    refresher.start()
    _end_with(refresher, server)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        refresher.stop()
        listening.close()
    if refresher.error is not None:
        raise refresher.error


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at the port asked for, or at the first one that is free."""
    if port is not None and not 0 <= port < 65536:
        raise InputError(f"port={port} must be a whole number from 0 to 65535; 0 takes any that is free")
    reason = ""
    for candidate in range(PORT, PORT + _PORTS_TRIED) if port is None else (port,):
        try:
            family, *_, address = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise InputError(f"{cut(host)!r} is no host of this machine ({error}); give another --host") from None
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_MOST_WAITING)  # whoever asks before the server is there waits a moment
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(f"{host} is no address of this machine; give another --host") from None
            reason = error.strerror or str(error)
            continue
        return listening
    tried = f"{port}" if port is not None else f"{PORT} to {PORT + _PORTS_TRIED - 1}"
    raise InputError(f"{host} port {tried} cannot be used ({reason}); give another --port")


def _announce(access: Access, console: Console, open_browser: bool) -> None:
    """Print the address, once, and open it where there is a screen."""
    query = "" if access.token is None else f"?token={access.token}"
    shown = f"[{access.host}]" if ":" in access.host else access.host
    address = f"http://{shown}:{access.port}/{query}"
    console.print(f"the page is at {address} until you press Ctrl-C", markup=False, soft_wrap=True)
    if open_browser and _has_screen():
        threading.Timer(0.3, webbrowser.open, [address]).start()


def _has_screen() -> bool:
    """Whether a browser has somewhere to open: over a plain connection it would take the terminal."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _end_with(refresher: Refresher, server: uvicorn.Server) -> None:
    """End the server when the refresher has ended: a page that never changes again would look alive."""

    def watch() -> None:
        while refresher.alive and not server.should_exit:
            threading.Event().wait(_BETWEEN_CHECKS)
        server.should_exit = True

    threading.Thread(target=watch, name="epochcast-refresher-check", daemon=True).start()
