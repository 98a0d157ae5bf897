"""The documentation is built without a warning, and its pages load nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("pydata_sphinx_theme")
ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy, so that nothing of an earlier build is in the way."""
    copy = tmp_path_factory.mktemp("repository")
    for name in ("docs", "examples", "CONTRIBUTING.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, copy / name, ignore=shutil.ignore_patterns("_build", "gallery", "api", "__pycache__")
            )
        else:
            shutil.copy(source, copy / name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", "html"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "html"


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        for found in LOADED.findall(page.read_text(encoding="utf-8")):
            assert not re.match(r"(https?:)?//", "".join(found)), f"{page.name} loads {''.join(found)}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import\s+url\(.?https?:|src:\s*url\(.?https?:", sheet.read_text(encoding="utf-8"))


class Page(HTMLParser):
    """What a page links to or shows, and the names of its parts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.parts: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links |= {link for link in (found.get("href"), found.get("src")) if link}
        self.parts |= {part for part in (found.get("id"), found.get("name")) if part}


@pytest.mark.slow
def test_every_link_and_image_leads_somewhere(site):
    # The theme's own files hold a template.
    found = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    pages = {path: Page(path) for path in found}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            known = not target.fragment or file not in pages or unquote(target.fragment) in pages[file].parts
            if not file.is_file() or not known:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
def test_examples_have_figures_and_notebooks(site):
    for example in sorted((ROOT / "examples").glob("[0-9]*.py")):
        assert list((site / "_downloads").rglob(f"{example.stem}.ipynb")), example.name
        if "import altair" in example.read_text(encoding="utf-8"):
            assert list((site / "_images").glob(f"sphx_glr_{example.stem}_00*.png")), example.name
