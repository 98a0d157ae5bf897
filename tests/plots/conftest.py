"""A browser for the tests of pages."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def opened():
    """A function that opens a page; it gives the page, drawn, and what it complained about or asked for."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not Path("/usr/bin/chromium").exists():
        pytest.skip("Chromium is not installed (Debian: chromium)")
    options = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-quic"]

    def open_page(path, **options):
        page = browser.new_page(**options)
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector(".chart svg.marks", timeout=30_000)
        count = page.locator(".chart").count()
        page.wait_for_function(f"document.querySelectorAll('svg.marks[role=img]').length === {count}", timeout=30_000)
        return page, complaints

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        yield open_page
        browser.close()
