"""Every Python block and every command of the README and the docs runs as it is printed.

The blocks of a page run in order, in an empty directory: Python blocks share their names. Commands that need a shell
(pipes, variables, files written) go through one; plain ones run without it, and those of the package in this process,
since a new process for each would spend most of the time on imports. What a page writes, it writes under ``out``, which
git ignores: a reader who follows it in a clone leaves nothing behind. A block after ``<!-- slow -->`` takes longer and
runs with the slow tests, those after it too. Commands inside a sentence are not run, but their command and options must
exist.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tensorucb.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("[a-z]*.md"))]
BLOCK = re.compile(r"(<!-- slow -->\n)?^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
# A TOML block that begins with the name of a file is that file.
FILE = re.compile(r"# (\S+\.toml)\n")
# What only a shell understands.
SHELL = re.compile(r"[$|<>;&`]|^\w+=", flags=re.MULTILINE)
COMMENT = re.compile(r"\s# .*$", flags=re.MULTILINE)
# These set the project up or test it; CI runs them.
MAKE = re.compile(r"^make \w+", flags=re.MULTILINE)


def blocks(page: Path) -> list[tuple[bool, str, str]]:
    """Whether it is slow, the language and the text of each block."""
    return [(bool(slow), language, text) for slow, language, text in BLOCK.findall(page.read_text(encoding="utf-8"))]


def run(
    page: Path,
    parts: list[tuple[bool, str, str]],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(directory)  # as for a script in this directory
    names: dict[str, object] = {"__name__": "page"}
    for _, language, text in parts:
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        elif language == "toml" and (named := FILE.match(text)):
            Path(named[1]).write_text(text, encoding="utf-8")
        elif language == "sh" and not MAKE.search(text):
            if SHELL.search(COMMENT.sub("", text)):
                shell(text)
            else:
                plain(text, monkeypatch)
        elif language == "text" and page.name == "tutorial.md":
            check_printed(text, capsys.readouterr().out)
    left = {path.name for path in directory.iterdir()} - {"out", "__pycache__"}
    assert not left, f"{page.name} leaves files where it is followed: let it change to a directory under out/"


def check_printed(shown: str, printed: str) -> None:
    """Whether the commands since the last such block printed these lines; numbers and widths differ from day to day."""

    def alike(text: str) -> list[str]:
        without_places = re.sub(r"sqlite:\S+", "STORE", re.sub(r"-[0-9a-f]{8}\b", "", text))
        without_numbers = re.sub(r"\d[\d,.:TZ-]*", "N", without_places)
        return [" ".join(re.sub("--+", "-", line).split()) for line in without_numbers.splitlines() if line.strip()]

    lines = alike(printed)
    assert [line for line in alike(shown) if line != "…" and line not in lines] == []


def plain(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run lines that hold nothing but a command, its words and a comment."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program == "tensorucb":
            with pytest.raises(SystemExit) as end:
                main(words)
            assert end.value.code == 0, line
        elif program == "cd":
            os.chdir(words[0])
            monkeypatch.syspath_prepend(Path.cwd())
        elif program:
            shell(line)


def shell(text: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", text],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    print(done.stdout)


def quick(parts: list[tuple[bool, str, str]]) -> list[tuple[bool, str, str]]:
    first = next((i for i, part in enumerate(parts) if part[0]), len(parts))
    return parts[:first]


FIRST = ("README.md", "tutorial.md")  # what a newcomer reads; the other pages take a minute in all


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=() if p.name in FIRST else pytest.mark.slow, id=p.name) for p in PAGES if quick(blocks(p))],
)
def test_blocks_run_as_printed(page, tmp_path, monkeypatch, capsys):
    run(page, quick(blocks(page)), tmp_path, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if quick(blocks(p)) != blocks(p)], ids=lambda page: page.name)
def test_slow_blocks_run_as_printed(page, tmp_path, monkeypatch, capsys):
    run(page, blocks(page), tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    assert {language for _, language, _ in blocks(page)} <= {"python", "sh", "text", "toml", "nginx"}


def commands() -> list[str]:
    """Commands inside sentences, and those whose runs took hours (in indented lines)."""
    found: set[str] = set()
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
        found.update(re.findall(r"`((?:tensorucb|python -m|make) [^`]+)`", prose))
        found.update(re.findall(r"^    ((?:tensorucb|python -m) .+)$", prose, flags=re.MULTILINE))
    return sorted(found)


@pytest.mark.parametrize("text", commands())
def test_commands_in_sentences_exist(text, capsys):
    program, *words = shlex.split(text)
    used = {word.split("=")[0] for word in words if re.match("-[a-z-]", word)}
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    elif program == "tensorucb":
        with pytest.raises(SystemExit, match="0"):
            main([*words[: 2 if words[0] == "datasets" else 1], "--help"])
        assert used <= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out)) | {"--help"}
    else:
        place = ROOT / words[1].replace(".", "/")
        files = [place.with_suffix(".py")] if place.with_suffix(".py").exists() else sorted(place.glob("*.py"))
        source = "".join(file.read_text(encoding="utf-8") for file in files)
        assert source
        assert all(f'"{option}"' in source for option in used - {"-m"})


def printed_help(capsys, *words: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    return str(capsys.readouterr().out)


def test_every_command_and_option_has_a_place_in_the_docs(capsys):
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    names = re.findall(r"^  ([a-z][a-z-]+) ", printed_help(capsys).partition("Commands:")[2], flags=re.MULTILINE)
    assert len(names) > 25
    lost = []
    for name in names:
        if f"`{name}`" not in reference:
            lost.append(name)
        options = re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]+)", printed_help(capsys, name), flags=re.MULTILINE)
        lost += [f"{name} {option}" for option in options if not re.search(rf"{option}(?![\w-])", text)]
    assert not lost


def test_links_to_files_lead_somewhere():
    for page in PAGES:
        shown = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#]+)\)", shown):
            if "://" not in link:
                assert exists(page, link), f"{page.name} links to {link}"


def test_files_named_in_sentences_exist():
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for name in re.findall(r"`((?:tests|studies|benchmarks|examples|scripts|src)/[\w./-]+)`", prose):
            assert (ROOT / name).exists() or "source_rate" in name, f"{page.name} names {name}"


def test_names_that_pages_link_to_are_public():
    for page in PAGES:
        for path in re.findall(r"\{py:obj\}`(?:[^`<]*<|~)(tensorucb[\w.]+)>?`", page.read_text(encoding="utf-8")):
            module, _, name = path.rpartition(".")
            assert name in importlib.import_module(module).__all__, f"{page.name} links to {path}"


# Labels of the numbered equations of the paper's main text, in its order; some have none.
LABELS = [
    "Observable_Dt",
    "D1:tau",
    "pij_Hw",
    "user_context_tensor_general",
    "bilinear",
    "W-CP-expansion-general",
    "obs_prior",
    "Q-VBassumption",
    "VBproblem",
    "Q_0_proportiional_to",
    "posteriorMean",
    "beta_def",
    "posteriorCov",
    "online_updating_Sigma_SigmaInv",
    "muOnline",
    "predictive-y-def",
    "predictive_mean_variance",
    "-",
    "Marov_inequality_applied_to_exp",
    "-",
    "-",
    "-",
    "-",
    "CB_ij",
    "regret_scaled_def",
    "1norm_smoothness",
    "regret_bound",
    "c_lower_bounded",
]


def test_the_mathematics_has_every_equation_and_names_what_is_in_the_code():
    text = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
    spans = set(re.findall(r"`([A-Za-z_][\w:-]*)`", BLOCK.sub("", re.sub(r"\{py:obj\}`[^`]*`", "", text))))
    for number, label in enumerate(LABELS, start=1):
        assert label == "-" or label in text, label
        assert 18 < number < 23 or f"({number})" in text, number
    folders = [ROOT / name for name in ("src", "studies")]
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    assert [name for name in spans - set(LABELS) if not re.search(rf"\b{name}\b", code)] == []


def test_the_model_names_what_is_in_the_code():
    spans = re.findall(r"`([A-Z]\w+)\.(\w+)`", (ROOT / "docs" / "model.md").read_text(encoding="utf-8"))
    response = ROOT / "src" / "tensorucb" / "learner" / "response"
    code = "".join(path.read_text(encoding="utf-8") for path in response.glob("*.py"))
    assert spans
    for owner, name in spans:
        assert re.search(rf"^class {owner}\b", code, flags=re.MULTILINE) or owner == "TensorUCB", owner
        assert re.search(rf"\b{name}\b", code) or owner == "TensorUCB", name


def test_the_design_names_files_that_exist_and_names_that_are_in_them():
    source = ROOT / "src" / "tensorucb"
    files = {path.relative_to(source).as_posix(): path for path in source.rglob("*") if path.suffix in (".py", ".js")}

    def texts(name: str) -> list[str]:
        """Of every file that is called so; a page names the folder where it first speaks of it."""
        wanted = "/" + name.removeprefix("src/tensorucb/")
        return [path.read_text(encoding="utf-8") for known, path in files.items() if f"/{known}".endswith(wanted)]

    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`([\w/]+\.(?:py|js))`", page) if not texts(name)] == []
    # A name stands before the brackets with its file, or in them.
    pairs = re.findall(r"`([\w.]+)`,? \(`([\w/]+\.(?:py|js))`\)", page)
    for inside in re.findall(r"\(([^()]*`[\w/]+\.(?:py|js)`[^()]*)\)", page):
        file = re.findall(r"`([\w/]+\.(?:py|js))`", inside)[-1]
        pairs += [(name, file) for name in re.findall(r"`([A-Za-z_]\w*(?:\.[a-z_]\w*)?)`", inside) if name != file]
    pairs = [(name, file) for name, file in pairs if not name.endswith((".py", ".js"))]
    assert len(pairs) > 40
    lost = []
    for name, file in pairs:
        words = name.split(".")
        found = any(all(re.search(rf"\b{word}\b", text) for word in words) for text in texts(file))
        lost += [] if found else [f"{name} ({file})"]
    assert lost == []


def exists(page: Path, link: str) -> bool:
    """Whether the file is there, or the page of the site that is made of an example or of the API."""
    target = Path(os.path.normpath(page.parent / link))
    if target.parent == ROOT / "docs" / "gallery":
        return target.name == "index" or (ROOT / "examples" / f"{target.name}.py").exists()
    return target.exists() or target == ROOT / "docs" / "reference" / "api" / "index"
