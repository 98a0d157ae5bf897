from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.errors import FileFormatError, InputError, UnknownIdError
from tensorucb.graph import Graph

TEXT_HEADER = "source,target,outcome,time,event_id\n"


def opened(**settings):
    campaign = small_campaign(**settings)
    return campaign, campaign.ask("tea", 4)


def test_every_form_of_edge_responses_is_the_same(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    hashes = set()
    for form in range(10):
        campaign, ask = opened()
        rows = [
            {**row, "time": 1001.5 + i, "event_id": f"e{i}", "note": "ignored"}
            for i, row in enumerate(answers(campaign, ask))
        ]
        frame = pl.DataFrame(rows)
        frame.write_csv(tmp_path / "r.csv")
        frame.write_ndjson(tmp_path / "r.ndjson")
        frame.write_parquet(tmp_path / "r.parquet")
        forms = [
            rows,
            frame,
            frame.lazy(),
            frame.to_arrow(),
            pandas.DataFrame(rows),
            pyarrow.Table.from_pylist(rows),
            frame.to_dict(as_series=False),
            tmp_path / "r.csv",
            str(tmp_path / "r.ndjson"),
            tmp_path / "r.parquet",
        ]
        assert campaign.tell(ask.id, forms[form]).accepted == len(rows), form
        again = campaign.tell(ask.id, rows)
        assert (again.accepted, again.duplicates, again.contradictions) == (0, len(rows), ()), form
        campaign.close(ask.id)
        hashes.add(campaign.model_hash())
    assert len(hashes) == 1


def test_ids_in_text_files_stay_strings(tmp_path):
    from tensorucb.graph import Graph

    graph = Graph.from_edges(["007", "007", "8"], ["8", "9", "9"])
    campaign = small_campaign(graph=graph)
    ask = campaign.ask([1.0, 0.0], 1, must_include=["007"])
    (tmp_path / "r.csv").write_text("source,target,outcome\n007,8,1\n007,9,0\n")
    assert campaign.tell(ask.id, tmp_path / "r.csv").accepted == 2


def test_integer_ids_and_one_mapping():
    campaign, ask = opened(graph=small_graph(strings=False))
    row = answers(campaign, ask)[0]
    assert campaign.tell(ask.id, row).accepted == 1
    assert campaign.tell(ask.id, {"user": 3, "time": 1001}).accepted == 1
    assert campaign.tell(ask.id, []).accepted == 0


def test_edges_and_node_events_may_come_in_one_delivery():
    campaign, ask = opened()
    edge, user = answers(campaign, ask)[0], campaign.graph.ids[5].item()
    report = campaign.tell(ask.id, [{"user": user, "time": 1002.0}, edge, {"user": user, "time": 1003.0}])
    assert report.accepted == 3
    with pytest.raises(UnknownIdError, match="line 3: 'nobody'"):
        campaign.tell(ask.id, [edge, edge, {"user": "nobody", "time": 1}], strict=True)
    with pytest.raises(UnknownIdError, match="line 2: 'nobody'"):
        campaign.tell(ask.id, [{"user": user, "time": 1.0}, {**edge, "target": "nobody"}], strict=True)


def test_times_as_datetimes_texts_and_numbers():
    clock = Clock(datetime(2026, 5, 1, tzinfo=UTC).timestamp())
    campaign = small_campaign(clock=clock, window="3600s")
    ask = campaign.ask("tea", 4)
    user = campaign.graph.ids[5].item()
    moment = datetime(2026, 5, 1, 0, 30, tzinfo=UTC)
    forms = [
        moment,
        moment.replace(tzinfo=None),
        moment.isoformat(),
        moment.timestamp(),
        np.datetime64("2026-05-01T00:30"),
    ]
    reports = [campaign.tell(ask.id, [{"user": user, "time": form}]) for form in forms]
    assert [report.accepted for report in reports] == [1, 0, 0, 0, 0]
    frame = pl.DataFrame({"user": [user], "time": [moment]})
    assert campaign.tell(ask.id, frame).duplicates == 1


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"outcome": 2}, InputError, "outcome is not 0 or 1 .line 2: '2'"),
        ({"outcome": None}, InputError, "outcome is empty .line 2"),
        ({"outcome": "yes"}, InputError, "line 2: 'yes'"),
        ({"outcome": 0.5}, InputError, "line 2: '0.5'"),
        ({"source": "nobody"}, UnknownIdError, "not in the network .line 2: 'nobody'"),
        ({"target": "nobody"}, UnknownIdError, "not in the network .line 2: 'nobody'"),
        ({"target": None}, InputError, "target is empty .line 2"),
        ({"target": True}, InputError, "target is not an id .line 2: 'True'"),
        ({"source": None}, InputError, "neither a source nor a user .line 2"),
        ({"time": "yesterday"}, InputError, "time is not a time .*line 2: 'yesterday'"),
        ({"event_id": [1]}, InputError, "event_id is not text or a whole number .line 2"),
    ],
)
def test_a_wrong_row_is_left_out_and_named_or_refuses_all_if_strict(change, error, match):
    campaign, ask = opened()
    rows = answers(campaign, ask)[:3]
    rows[1] = {**rows[1], **change}
    before = campaign.status()
    with pytest.raises(error, match=match):
        campaign.tell(ask.id, rows, strict=True)
    assert campaign.status() == before
    report = campaign.tell(ask.id, rows)
    assert report.accepted == 2
    assert [(entry.count, entry.first_lines) for entry in report.left_out] == [(1, (2,))]
    # One row of one is more than half.
    with pytest.raises(error, match=match.replace("line 2", "line 1")):
        campaign.tell(ask.id, rows[1:2])


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"target": None}, "target is empty .line 3"),
        ({"target": True}, "target is not an id .line 3"),
        ({"target": ""}, "target is empty .line 3"),
        ({"target": 7}, "not in the network .line 3: '7'"),
        ({"event_id": [1]}, "event_id is not text or a whole number .line 3"),
    ],
)
def test_rows_count_from_one_over_the_whole_delivery(bad, match):
    """A node event before them must not shift the numbers of the rows by edge."""
    campaign, ask = opened()
    first, second = answers(campaign, ask)[:2]
    action = {"user": campaign.graph.ids[5].item(), "time": 1001.0}
    with pytest.raises(InputError, match=match):
        campaign.tell(ask.id, [action, first, {**second, **bad}], strict=True)


def test_the_header_of_a_file_is_its_first_line(tmp_path):
    campaign, ask = opened()
    row = answers(campaign, ask)[0]
    lines = ["source,target,outcome", f"{row['source']},{row['target']},1", f"{row['source']},{row['target']},0"]
    (tmp_path / "r.csv").write_text("\n".join(lines) + "\n")
    (clash,) = campaign.tell(ask.id, tmp_path / "r.csv").contradictions
    assert clash.row == 3
    (tmp_path / "r.csv").write_text("\n".join([*lines, f"{row['source']},nobody,1"]) + "\n")
    with pytest.raises(UnknownIdError, match=r"line 4: 'nobody'"):
        campaign.tell(ask.id, tmp_path / "r.csv", strict=True)


def test_strangers_missing_edges_and_unknown_rounds_are_refused():
    campaign, ask = opened()
    edge = answers(campaign, ask)[0]
    others = out_pairs(campaign, [u for u in campaign.graph.ids.tolist() if u not in ask.seeds])[:2]
    strays = [{"source": s, "target": t, "outcome": 1} for s, t in others]
    for strict in (True, False):
        with pytest.raises(InputError, match=r"2 of 3 rows .*a source that was not contacted in round 1 \(lines 2, 3"):
            campaign.tell(ask.id, [edge, *strays], strict=strict)
    with pytest.raises(UnknownIdError, match=r"1 of 2 rows .*an edge that is not in the network \(line 2"):
        campaign.tell(ask.id, [edge, {**edge, "target": edge["source"]}], strict=True)
    with pytest.raises(UnknownIdError, match="no round '000099-x'"):
        campaign.tell("000099-x", [edge])
    assert campaign.tell(ask.id, [edge]).accepted == 1


@pytest.mark.parametrize("wrong", [7, [1, 2], [{"sauce": 1}], {"source": ["a"], "target": ["b", "c"]}])
def test_forms_that_are_none(wrong):
    campaign, ask = opened()
    with pytest.raises(InputError):
        campaign.tell(ask.id, wrong)


def test_files_that_are_none(tmp_path):
    campaign, ask = opened()
    with pytest.raises(FileFormatError, match="cannot read"):
        campaign.tell(ask.id, tmp_path / "missing.csv")
    (tmp_path / "r.xls").write_text("x")
    with pytest.raises(FileFormatError, match="suffix"):
        campaign.tell(ask.id, tmp_path / "r.xls")
    (tmp_path / "r.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FileFormatError, match="cannot read"):
        campaign.tell(ask.id, tmp_path / "r.parquet")


def test_contradictions_are_reported_with_both_values_and_the_first_stands():
    campaign, ask = opened()
    first, second = answers(campaign, ask)[:2]
    campaign.tell(ask.id, [{**first, "outcome": 1}])
    report = campaign.tell(ask.id, [second, {**first, "outcome": 0}])
    assert report.accepted == 1
    (clash,) = report.contradictions
    assert (clash.row, clash.source, clash.target, clash.kept, clash.told) == (
        2,
        first["source"],
        first["target"],
        1,
        0,
    )
    # Within one batch the first stands as well.
    third = answers(campaign, ask)[2]
    report = campaign.tell(ask.id, [{**third, "outcome": 0}, {**third, "outcome": 1}, {**third, "outcome": 0}])
    assert (report.accepted, report.duplicates, len(report.contradictions)) == (1, 1, 1)


def test_an_event_id_used_twice_for_different_things():
    campaign, ask = opened()
    first, second, third = answers(campaign, ask)[:3]
    campaign.tell(ask.id, [{**first, "event_id": "a"}])
    report = campaign.tell(
        ask.id,
        [
            {**first, "event_id": "a"},
            {**second, "event_id": "a"},
            {**third, "event_id": "b"},
            {**third, "event_id": "b"},
        ],
    )
    assert (report.accepted, report.duplicates) == (1, 2)
    (clash,) = report.contradictions
    assert clash.event_id == "a"
    assert clash.kept["target"] == first["target"]
    assert clash.told["target"] == second["target"]
    report = campaign.tell(ask.id, [{"user": first["target"], "time": 1001.0, "event_id": "b"}])
    assert (report.accepted, len(report.contradictions)) == (0, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"src": ["a"], "dst": ["b"], "y": [1]},
        {"src": "a", "dst": "b", "y": 1},
        [{"src": "a", "dst": "b", "y": 1}],
        pl.DataFrame({"src": ["a"], "dst": ["b"], "y": [1]}),
        pl.DataFrame(schema={"src": pl.String, "dst": pl.String, "y": pl.Int64}),
        "src,dst,y\n",
        "src,dst,y\na,b,1\n",
    ],
)
def test_responses_without_any_known_field_are_refused(wrong, tmp_path):
    campaign, ask = opened()
    if isinstance(wrong, str):
        (tmp_path / "r.csv").write_text(wrong)
        wrong = tmp_path / "r.csv"
    with pytest.raises(InputError, match=r"source, target and outcome.*'dst', 'src', 'y'"):
        campaign.tell(ask.id, wrong)


def test_nothing_at_all_is_no_error(tmp_path):
    campaign, ask = opened()
    (tmp_path / "r.csv").write_text(TEXT_HEADER)
    for nothing in ([], {}, pl.DataFrame(), tmp_path / "r.csv"):
        assert campaign.tell(ask.id, nothing).accepted == 0


def test_a_text_file_may_mix_iso_times_and_numbers(tmp_path):
    campaign, ask = opened()
    users = campaign.graph.ids.tolist()
    times = ['"1970-01-01T00:16:41+00:00"', "1002.5", '"1003"', '"19700102"']
    lines = [f'{{"user": "{user}", "time": {time}}}' for user, time in zip(users, times, strict=False)]
    (tmp_path / "r.ndjson").write_text("\n".join(lines) + "\n")
    assert campaign.tell(ask.id, tmp_path / "r.ndjson").accepted == 4
    with campaign.store.read() as session:
        assert session.responses(1, 1, 1)[1].actions.times.tolist() == [1001.0, 1002.5, 1003.0, 86400.0]
    for wrong in ("soon", "nan", "inf", ""):
        with pytest.raises(InputError, match="time is"):
            campaign.tell(ask.id, {"user": users[0], "time": wrong})


def test_events_outside_the_window_are_counted():
    campaign, ask = opened(window="100s")
    users = campaign.graph.ids.tolist()
    times = [1000.0, 1100.0, 999.0, 1101.0, 1_050_000.0]
    rows = [{"user": user, "time": time} for user, time in zip(users, times, strict=False)]
    report = campaign.tell(ask.id, rows)
    assert (report.accepted, report.outside_window) == (5, 3)
    assert campaign.tell(ask.id, rows).outside_window == 0
    # An explicit outcome counts whatever its time.
    assert campaign.tell(ask.id, {**answers(campaign, ask)[0], "time": 1_050_000.0}).outside_window == 0
    endless, asked = opened()
    assert endless.tell(asked.id, rows).outside_window == 1


def test_strangers_are_counted_and_skipped_on_request(tmp_path):
    campaign, ask = opened()
    (source, target), *_ = out_pairs(campaign, ask.seeds)
    lines = [f"{source},{target},1,,", "guest,x,1,,", f"{source},{source},1,,", ",,,guest,1001", f",,,{target},1001"]
    (tmp_path / "r.csv").write_text("source,target,outcome,user,time\n" + "\n".join(lines) + "\n")
    before = campaign.status()
    with pytest.raises(UnknownIdError) as refused:
        campaign.tell(ask.id, tmp_path / "r.csv")
    said = str(refused.value)
    assert "3 of 5 rows cannot be used: a user who is not in the network (lines 3, 5: 'guest')" in said
    assert f"an edge that is not in the network (line 4: '{source} -> {source}')" in said
    assert "max_left_out=1.0" in said
    assert campaign.status() == before
    report = campaign.tell(ask.id, tmp_path / "r.csv", max_left_out=1.0)
    assert (report.accepted, report.unknown, report.outside_window) == (2, 3, 0)
    again = campaign.tell(ask.id, tmp_path / "r.csv", max_left_out=1.0)
    assert (again.accepted, again.duplicates, again.unknown) == (0, 2, 3)


def test_many_strangers_are_counted_and_the_first_are_named():
    campaign, ask = opened()
    rows = [{"user": f"guest-{i}", "time": 1001.0} for i in range(1200)]
    with pytest.raises(UnknownIdError, match=r"1,200 of 1,200 rows .*lines 1, 2, 3, 4, 5, …: .*'guest-4'"):
        campaign.tell(ask.id, rows)
    assert campaign.tell(ask.id, rows, max_left_out=1.0).unknown == 1200


@pytest.mark.parametrize("suffix", [".csv", ".ndjson"])
def test_a_guest_among_whole_numbers_is_a_stranger(tmp_path, suffix):
    campaign, ask = opened(graph=small_graph(strings=False))
    frame = pl.DataFrame({"user": ["3", "guest", "003", "99"], "time": [1001, 1001, 1001, 1001]})
    frame.write_csv(tmp_path / "r.csv")
    frame.write_ndjson(tmp_path / "r.ndjson")
    report = campaign.tell(ask.id, tmp_path / f"r{suffix}", max_left_out=1.0)
    assert (report.accepted, report.unknown) == (1, 3)
    # In Python a text is no number.
    with pytest.raises(UnknownIdError, match=r"user in row 1 is .* but ids of users are integers"):
        campaign.tell(ask.id, frame, max_left_out=1.0)


def test_columns_by_other_names(tmp_path):
    campaign, ask = opened()
    user = campaign.graph.ids[5].item()
    (tmp_path / "r.csv").write_text(f"user,buyer,timestamp,time\nx,{user},1001,noon\n")
    names = {"user": "buyer", "time": "timestamp"}
    assert campaign.tell(ask.id, tmp_path / "r.csv", columns=names).accepted == 1
    forms = [{"buyer": user, "timestamp": 1001.0}], {"buyer": [user], "timestamp": [1001]}
    for rows in (*forms, pl.DataFrame(forms[1])):
        assert campaign.tell(ask.id, rows, columns={"user": "buyer"}).duplicates == 1


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (
            {"user": "purchaser"},
            r"responses has no column purchaser; its columns are buyer, at\. .*columns=\{'user': 'NAME'\}",
        ),
        (
            {"user": "buyer"},
            r"no field 'time', which their rows need; got \['at', 'buyer'\].*columns=\{'time': 'NAME'\}",
        ),
        ({"buyer": "user"}, "columns gives a name to 'buyer'; it may do so for source, target"),
        ({"user": "buyer", "time": "buyer"}, "twice"),
        ({"product": "buyer", "item": "at"}, "twice"),
        ({"user": 3}, r"columns\['user'\] must be text"),
        (["user"], "columns must be a mapping"),
        (None, r"got \['at', 'buyer'\]\. Say which is which with columns="),
    ],
)
def test_wrong_names_of_columns_say_what_came(columns, match):
    campaign, ask = opened()
    with pytest.raises(InputError, match=match):
        campaign.tell(ask.id, [{"buyer": "person-001", "at": 1001.0}], columns=columns)


def test_rows_of_another_product_are_left_out():
    """A log of all purchases must not count for the one round that was named, but what is about it does."""
    campaign = small_campaign()
    ask, users = campaign.ask("tea", 2), campaign.graph.ids[:4].tolist()
    rows = {"user": users, "time": [campaign.clock() + 1.0] * 4, "product": ["tea", "hat", None, "hat"]}
    report = campaign.tell(ask.id, rows, strict=True)
    assert report.accepted == 2
    assert [str(entry) for entry in report.left_out] == [
        "2 left out: of another product than 'tea' (lines 2, 4: 'hat')"
    ]
    with pytest.raises(InputError, match=r"all 4 rows are of another product than round 1.*'tea'.*line 1, 'hat'"):
        campaign.tell(ask.id, {**rows, "product": ["hat"] * 4})
    again = campaign.tell(ask.id, {**rows, "product": ["tea"] * 4})
    assert (again.accepted, again.duplicates) == (2, 2)


def test_a_guest_among_ids_of_nineteen_digits_is_the_only_stranger(tmp_path):
    ids = np.arange(4) + 1_234_567_890_123_456_789
    campaign, ask = opened(graph=Graph.from_edges(ids[:-1], ids[1:]))
    (tmp_path / "r.csv").write_text(f"user,time\nguest,1001\n{ids[1]},1001\n")
    report = campaign.tell(ask.id, tmp_path / "r.csv", max_left_out=1.0)
    assert (report.accepted, report.unknown) == (1, 1)
