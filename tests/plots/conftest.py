"""Pages in a browser, for the tests of reports."""

from __future__ import annotations

from contextlib import ExitStack

import pytest


@pytest.fixture
def opened(browser):
    """A function that opens a page; it gives the page, drawn, and what it complained about or asked for."""
    pages = ExitStack()

    def open_page(path, **options):
        page = browser.new_page(**options)
        pages.callback(page.close)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector(".chart svg.marks", timeout=30_000)
        count = page.locator(".chart").count()
        page.wait_for_function(f"document.querySelectorAll('svg.marks[role=img]').length === {count}", timeout=30_000)
        return page, complaints

    with pages:
        yield open_page
