"""Exports: a manifest that tells the truth, and nothing left behind by a failure or a kill."""

import hashlib
import json
import os
import signal
import threading
from datetime import datetime

import polars as pl
import pytest

from campaign.workers import CONTEXT
from campaign.worlds import Clock, answers, small_campaign
from tensorucb.errors import InputError
from tensorucb.files import staged


def _played(storage="memory://"):
    campaign = small_campaign(storage, clock=Clock(1_700_000_000.0))
    ask = campaign.ask("tea", 4)
    campaign.tell(ask.id, answers(campaign, ask))
    return campaign


def _check(folder):
    """Whether what the folder holds is one whole export; its manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {path.name for path in folder.iterdir()} == {line["name"] for line in manifest["files"]} | {"manifest.json"}
    for line in manifest["files"]:
        data = (folder / line["name"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == line["sha256"]
        assert pl.read_parquet(folder / line["name"]).height == line["rows"]
    return manifest


def test_the_manifest_names_every_file_with_its_rows_and_checksum(tmp_path):
    campaign = _played()
    paths = campaign.export(tmp_path / "out")
    manifest = _check(tmp_path / "out")
    assert [path.name for path in paths] == [*(line["name"] for line in manifest["files"]), "manifest.json"]
    assert manifest["campaign"] == "spring"
    assert datetime.fromisoformat(manifest["exported"]).timestamp() == 1_700_000_000.0
    assert (manifest["format"], manifest["version"]) == ("tensorucb campaign export", 1)
    assert manifest["last_event"] == campaign.status().events
    first = manifest["files"]
    campaign.close(campaign.rounds()[0].id)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    campaign.export(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").unlink()
    assert _check(tmp_path / "out")["files"] != first


def test_a_failed_export_leaves_what_was_there(tmp_path, monkeypatch):
    campaign = _played()
    campaign.export(tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    write, calls = pl.DataFrame.write_parquet, []

    def full(self, *arguments, **named):
        calls.append(None)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return write(self, *arguments, **named)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    for name in ("out", "new"):
        calls.clear()
        with pytest.raises(OSError, match="No space left"):
            campaign.export(tmp_path / name)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def _write_half(folder, pipe):
    with staged(folder, "manifest.json") as place:
        for i in range(5):
            (place / f"{i}.parquet").write_bytes(b"half")
            pipe.send(i)
        threading.Event().wait(60)  # until it is killed


def test_what_a_killed_export_left_is_cleared_by_the_next(tmp_path):
    campaign = _played()
    campaign.export(tmp_path / "out")
    before = _check(tmp_path / "out")
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_write_half, args=(tmp_path / "out", send))
    process.start()
    send.close()
    assert [receive.recv() for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="somebody else is writing"):
        campaign.export(tmp_path / "out")
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == before
    campaign.export(tmp_path / "out")
    _check(tmp_path / "out")


def test_a_manifest_is_there_only_with_all_of_its_files(tmp_path, monkeypatch):
    """Killed between two moves: the files are of two exports, and no manifest says otherwise."""
    campaign = _played()
    campaign.export(tmp_path / "out")
    move, calls = os.replace, []

    def stop(source, target):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            campaign.export(tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()
    campaign.export(tmp_path / "out")
    _check(tmp_path / "out")
