"""A real Chromium for the tests of the page; it remembers what went wrong and where requests went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    f"--{name}"
    for name in (
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-dev-shm-usage",
    )
]
SECONDS = 15_000.0  # milliseconds that a busy machine may take


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there; Debian's package chromium brings it")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, url: str, *, width: int = 1280, mode: str = "light", timezone: str | None = None
) -> Iterator[tuple[Any, list[str]]]:
    """A page of its own and its console's errors; at the end there must be none, and no request to another host."""
    size = {"width": width, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=mode, base_url=url, timezone_id=timezone)
    context.set_default_timeout(SECONDS)
    page = context.new_page()
    errors: list[str] = []
    hosts: set[str] = set()
    page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    try:
        yield page, errors
        assert errors == [], errors
        assert hosts == {urlsplit(url).netloc}
    finally:
        context.close()
