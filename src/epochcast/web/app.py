"""The addresses of the page and what each answers. No request names a file: runs are known by ids."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import PurePath

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from epochcast.errors import EpochcastError
from epochcast.web.csv_table import csv_of
from epochcast.web.feed import Feed
from epochcast.web.guard import Access, Guard
from epochcast.web.page import SCRIPTS, STYLE, TYPES, asset, live_page
from epochcast.web.run_queries import Answer, RunQueries

LONGEST_WAIT = 20.0  # seconds that a browser waits for news before it asks again
_BETWEEN_GLANCES = 0.05  # seconds
_MOST_FANS = 12  # in one answer
_NO_SUCH_RUN = "there is no such run any more; go back to the table"


class App:
    """The handlers, over a feed and queries of single runs; `ending` tells whether the server is about to end."""

    def __init__(self, feed: Feed, queries: RunQueries, ending: Callable[[], bool]) -> None:
        self._feed, self._queries, self._ending = feed, queries, ending
        self._page = live_page()
        self._assets = {name: asset(name) for name in (STYLE, *SCRIPTS)}

    def guarded(self, access: Access) -> Starlette:
        """The application, for those who have access."""
        routes = [
            Route("/", self.page),
            Route("/static/{name}", self.static),
            Route("/api/changes", self.changes),
            Route("/api/fans", self.fans),
            Route("/api/runs/{key}", self.details),
            Route("/api/runs/{key}/reach", self.reach),
            Route("/runs.csv", self.table),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])

    async def page(self, request: Request) -> Response:
        return HTMLResponse(self._page)

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._assets:
            return _refused("there is no such file", 404)
        return Response(self._assets[name], media_type=TYPES[PurePath(name).suffix])

    async def changes(self, request: Request) -> Response:
        """What is new since a version, as soon as there is something."""
        session = request.query_params.get("session", "")
        try:
            since = int(request.query_params.get("since", "0"))
        except ValueError:
            return _refused("since must be a whole number", 400)
        deadline = time.monotonic() + LONGEST_WAIT
        while session == self._feed.session and self._feed.version == since and time.monotonic() < deadline:
            if self._ending() or await request.is_disconnected():
                break
            await asyncio.sleep(_BETWEEN_GLANCES)
        return JSONResponse(self._feed.changes(session, since))

    async def fans(self, request: Request) -> Response:
        """Fans of several runs, by id; those that are gone are left out."""
        keys = request.query_params.get("ids", "").split(",")[:_MOST_FANS]
        found = {key: await run_in_threadpool(self._queries.fan, key) for key in keys}
        return JSONResponse({key: fan for key, fan in found.items() if fan is not None})

    async def details(self, request: Request) -> Response:
        return _answered(await run_in_threadpool(self._queries.details, request.path_params["key"]))

    async def reach(self, request: Request) -> Response:
        """When a run reaches the value in the query."""
        try:
            value = float(request.query_params.get("value", ""))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            return _refused("give a number, such as 0.9", 400)
        try:
            return _answered(await run_in_threadpool(self._queries.reach, request.path_params["key"], value))
        except EpochcastError as error:
            return _refused(str(error), 400)

    async def table(self, request: Request) -> Response:
        snapshot = self._feed.snapshot
        if snapshot is None:
            return _refused("the runs are still being read; try again in a moment", 503)
        headers = {"content-disposition": 'attachment; filename="runs.csv"'}
        return Response(csv_of(snapshot), media_type="text/csv; charset=utf-8", headers=headers)


def _answered(answer: Answer | None) -> Response:
    return _refused(_NO_SUCH_RUN, 404) if answer is None else JSONResponse(answer)


def _refused(reason: str, status: int) -> Response:
    return JSONResponse({"error": reason}, status)
