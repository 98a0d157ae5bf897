"""How the documentation is built: `make docs`. No page loads anything from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorucb

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "tensorucb"
author = "The tensorucb developers"
copyright = author
version = release = tensorucb.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "mathml",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "tensorucb"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars: dict[str, list[str]] = {
    page: [] for page in ("index", "tutorial", "results", "benchmarks", "contributing")
}

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
# Signatures name these as the code does, instead of what they stand for.
_aliases = ("ArrayLike", "Product", "Features", "Groups", "Model", "Choices", "RngLike")
autodoc_type_aliases = {name: name for name in _aliases} | dict.fromkeys(("F32", "F64", "I32", "I64"), "ndarray")
default_role = "py:obj"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/[0-9]+_",
    "image_scrapers": ("altair_scraper.scrape",),
    "reset_modules": (),
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 3600,
}
