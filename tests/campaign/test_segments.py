"""Names of products, strategies and users, and the columns of users that split what came of a campaign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from campaign.worlds import Clock, out_pairs, small_campaign, small_graph
from tensorucb.campaign import create_campaign, load_campaign, read_campaign_data

# private: what the command add-users does with a file
from tensorucb.campaign._grow import users_from
from tensorucb.errors import UnknownIdError
from tensorucb.policies import HighDegree

COUNTRIES = ("France", "Spain", "Italy")


def people(ids) -> pl.DataFrame:
    n = len(ids)
    return pl.DataFrame(
        {
            "user": ids,
            "full_name": [f"Person Number {i:03d}" for i in range(n)],
            "country": [COUNTRIES[i % 3] for i in range(n)],
            "age": [18 + i for i in range(n)],
            "email": [f"{i}@example.org" for i in range(n)],
        }
    )


def made(storage: str = "memory://", *, graph=None, **more):
    graph = small_graph() if graph is None else graph
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    data = read_campaign_data(
        {
            "edges": edges,
            "users": people(graph.ids.tolist()),
            "products": pl.DataFrame(
                {"product": ["p1", "p2"], "title": ["Green tea", "Lavender soap"], "kind": ["a", "b"]}
            ),
            "strategies": pl.DataFrame({"strategy": ["s1", "s2"], "name": ["By mail", None], "x": [0.0, 1.0]}),
        },
        columns={"products": {"name": "title"}, "users": {"name": "full_name"}},
    )
    return create_campaign("spring", data=data, storage=storage, policy=HighDegree(), clock=Clock(), **more)


def play(campaign, product: str = "p1", **more):
    ask = campaign.ask(product, k=9, strategies=["s1"], **more)
    pairs = out_pairs(campaign, ask.contacted)
    campaign.tell(ask.id, [{"source": s, "target": t, "outcome": int(i % 3 == 0)} for i, (s, t) in enumerate(pairs)])
    campaign.close(ask.id)
    return ask


def test_names_come_from_the_columns_that_were_named():
    campaign = made()
    assert campaign.names("products") == {"p1": "Green tea", "p2": "Lavender soap"}
    assert campaign.names("strategies") == {"s1": "By mail"}
    assert campaign.names("users")["person-003"] == "Person Number 003"
    ask = play(campaign)
    seed = campaign.explain(ask.id).seeds[0]
    assert seed.name == campaign.names("users")[seed.user]
    assert {f.name for f in seed.followers} == {campaign.names("users")[f.user] for f in seed.followers}
    progress = campaign.progress()
    assert [group.name for group in (*progress.products, *progress.strategies)] == ["Green tea", "By mail"]
    assert progress.users[0].name == campaign.names("users")[progress.users[0].id]


def test_a_name_of_a_person_is_no_feature_and_that_of_a_product_stays_one():
    graph = small_graph()
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    users = pl.DataFrame({"user": graph.ids, "name": ["Ann", "Bob"] * 15, "age": np.arange(30) % 7})
    products = pl.DataFrame({"product": ["a", "b", "c"], "name": ["x", "y", "x"]})
    data = read_campaign_data({"edges": edges, "users": users, "products": products})
    assert [column.name for column in data.user_table.columns] == ["age"]
    assert [column.name for column in data.product_features.table.columns] == ["name"]


def test_segments_add_up_to_the_whole():
    campaign = made()
    for product in ("p1", "p2", "p1"):
        play(campaign, product)
    assert campaign.segments() == ("country", "age")  # an e-mail address splits nobody
    whole = campaign.progress()
    split = campaign.progress(segment="country")
    assert {entry.id for entry in split.segments} <= set(COUNTRIES)
    assert sum(entry.contacts for entry in split.segments) == whole.closed.contacts
    assert sum(entry.responders for entry in split.segments) == pytest.approx(whole.closed.responders)
    assert sum(entry.expected for entry in split.segments) == pytest.approx(whole.closed.expected)
    country = {user: COUNTRIES[i % 3] for i, user in enumerate(campaign.graph.ids.tolist())}
    contacted = [country[user] for ask in campaign.rounds() for user in ask.contacted]
    assert {entry.id: entry.contacts for entry in split.segments} == {c: contacted.count(c) for c in set(contacted)}
    assert whole.segments == ()
    assert whole.rounds == split.rounds


def test_numbers_become_ranges_and_what_is_missing_is_said():
    campaign = made()
    play(campaign)
    labels = [entry.id for entry in campaign.progress(segment="age").segments]
    assert set(labels) <= {"up to 25", "26 to 32", "33 to 39", "40 and more"}
    assert labels == sorted(labels, key=["up to 25", "26 to 32", "33 to 39", "40 and more"].index)
    campaign.add_users(["new-person"], sources=["new-person"] * 3, targets=["person-000", "person-001", "person-002"])
    campaign.ask("p1", users=["new-person"], strategies=["s1"])
    campaign.close(2)
    assert [entry.id for entry in campaign.progress(segment="age").segments][-1] == "not known"


def test_a_column_in_which_nearly_all_have_the_least_number_is_split_in_two():
    """Most people have ordered nothing: every quartile is 0."""
    graph = small_graph(60)
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    orders = [0] * 50 + list(range(1, 11))
    users = pl.DataFrame({"user": graph.ids, "orders": orders, "spent": [count / 4 for count in orders]})
    data = read_campaign_data({"edges": edges, "users": users, "products": pl.DataFrame({"product": ["p1"], "x": [1]})})
    campaign = create_campaign("spring", data=data, storage="memory://", policy=HighDegree(), clock=Clock())
    campaign.close(campaign.ask("p1", users=graph.ids[45:55].tolist()))
    for column, labels in (("orders", ["up to 0", "1 and more"]), ("spent", ["under 0.25", "0.25 and more"])):
        found = campaign.progress(segment=column).segments
        assert [(entry.id, entry.users) for entry in found] == [(labels[0], 5), (labels[1], 5)]


@pytest.mark.parametrize("start", [2021.0, 1.7e9, 1.705e9])
def test_large_fractions_that_differ_little_are_split_all_the_same(start):
    """Years with gaps, moments: three digits would round all of them to one number."""
    graph = small_graph(60)
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    users = pl.DataFrame(
        {"user": graph.ids, "since": [start + (1e3 if start > 1e6 else 1.0) * (i % 9) for i in range(60)]}
    )
    data = read_campaign_data({"edges": edges, "users": users, "products": pl.DataFrame({"product": ["p1"], "x": [1]})})
    campaign = create_campaign("spring", data=data, storage="memory://", policy=HighDegree(), clock=Clock())
    campaign.close(campaign.ask("p1", users=graph.ids[:45].tolist()))
    assert sorted(entry.users for entry in campaign.progress(segment="since").segments) == [10, 10, 10, 15]


def test_whole_numbers_that_no_float_tells_apart_are_two_labels():
    graph = small_graph(60)
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    shops = [2**60, 2**60 + 1]
    users = pl.DataFrame({"user": graph.ids, "shop": shops * 30})
    data = read_campaign_data({"edges": edges, "users": users, "products": pl.DataFrame({"product": ["p1"], "x": [1]})})
    campaign = create_campaign("spring", data=data, storage="memory://", policy=HighDegree(), clock=Clock())
    campaign.close(campaign.ask("p1", users=graph.ids[:10].tolist()))
    found = campaign.progress(segment="shop").segments
    assert [(entry.id, entry.users) for entry in found] == [(str(shop), 5) for shop in shops]


def test_few_responders_are_too_few_to_tell():
    campaign = made()
    play(campaign)
    for entry in campaign.progress(segment="country").segments:
        assert not entry.enough
    for _ in range(6):
        play(campaign)
    found = campaign.progress(segment="country").segments
    assert max(entry.responders for entry in found) >= 10
    assert not any(entry.enough for entry in found)  # the same few users again and again
    for _ in range(2):
        play(campaign, cooldown="1d")
    found = campaign.progress(segment="country").segments
    assert any(entry.enough for entry in found)
    for entry in found:
        assert entry.enough == (entry.users >= 5 and max(entry.responders, entry.expected) >= 10)


def test_the_lift_of_a_segment_counts_its_own_users_only():
    campaign = made(graph=small_graph(150, 400), ask={"holdout": 0.4})
    for _ in range(5):
        ask = campaign.ask("p1", k=12, strategies=["s1"])
        followers = {target for _, target in out_pairs(campaign, ask.contacted)}
        campaign.tell(ask.id, [{"user": user, "time": 1000.0} for user in sorted(followers)])
        campaign.close(ask.id)
    split = campaign.progress(segment="country")
    lifts = [entry.lift for entry in split.segments if entry.lift is not None]
    assert lifts
    assert sum(lift.contacted_followers for lift in lifts) <= split.lift.contacted_followers
    assert sum(lift.held_out_followers for lift in lifts) <= split.lift.held_out_followers
    assert all(lift.low <= lift.difference <= lift.high for lift in lifts)


def test_another_column_is_refused_by_name():
    with pytest.raises(UnknownIdError, match=r"segment is 'town'; columns .* are 'country', 'age'"):
        made().progress(segment="town")
    with pytest.raises(UnknownIdError, match="are none"):
        small_campaign().progress(segment="town")


def test_users_who_join_bring_their_name_and_columns(tmp_path: Path):
    with made(f"sqlite:///{tmp_path}/c.db") as campaign:
        file = tmp_path / "new.csv"
        file.write_text("user,full_name,country,age,email\nzoe-late,Zoe Late,Spain,50,z@example.org\n")
        users_from(campaign, file, None)
    with load_campaign("spring", storage=f"sqlite:///{tmp_path}/c.db", policy=HighDegree()) as again:
        assert again.names("users")["zoe-late"] == "Zoe Late"
        assert again.names("users")["person-029"] == "Person Number 029"
        again.add_products(["p9"], pl.DataFrame({"product": ["p9"], "title": ["Sea salt"], "kind": ["a"]}))
        assert again.names("products")["p9"] == "Sea salt"


@pytest.mark.parametrize(("first", "later"), [([0, 1, 2, 3], [1.0, None, 2.0]), ([0.0, 1.0, None, 3.0], [1, 3, 3])])
def test_users_who_join_have_the_same_numbers_whether_whole_or_not(first, later):
    """A gap makes fractions of whole numbers; the labels stay those of the first table."""
    graph = small_graph(60)
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    users = pl.DataFrame({"user": graph.ids, "children": first * 15})
    data = read_campaign_data({"edges": edges, "users": users, "products": pl.DataFrame({"product": ["p1"], "x": [1]})})
    campaign = create_campaign("spring", data=data, storage="memory://", policy=HighDegree(), clock=Clock())
    names = ["new-1", "new-2", "new-3"]
    campaign.add_users(names, pl.DataFrame({"children": later}), sources=names, targets=["person-000"] * 3)
    campaign.close(campaign.ask("p1", users=names))
    found = {entry.id: entry.users for entry in campaign.progress(segment="children").segments}
    assert {"not known" if label == "not known" else float(label): count for label, count in found.items()} == {
        "not known" if number is None else number: later.count(number) for number in later
    }


def test_a_user_whose_id_looks_like_a_number_joins_those_whose_ids_are_texts(tmp_path: Path):
    file = tmp_path / "new.csv"
    file.write_text("user,full_name,country,age,email\n8,Zoe Late,Spain,50,z@example.org\n")
    with made() as campaign:
        users_from(campaign, file, None)
        assert campaign.names("users")["8"] == "Zoe Late"


def test_who_is_forgotten_leaves_no_name_in_the_store(tmp_path: Path):
    store = tmp_path / "c.db"
    with made(f"sqlite:///{store}") as campaign:
        play(campaign)
        assert b"Person Number 004" in store.read_bytes() + Path(f"{store}-wal").read_bytes()
        report = campaign.forget("person-004")
        assert report.proven
        assert report.bytes_absent
        names = campaign.names("users")
        assert names["person-005"] == "Person Number 005"
        assert "person-004" not in names
        countries = {entry.id: entry.contacts for entry in campaign.progress(segment="country").segments}
        assert sum(countries.values()) == campaign.progress().closed.contacts
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Person Number 004" not in held
    assert b"Person Number 005" in held


def test_a_value_that_only_one_person_has_goes_with_them(tmp_path: Path):
    graph = small_graph()
    users = pl.DataFrame({"user": graph.ids, "town": ["Liliput", *["Paris", "Rome"] * 14, "Rome"]})
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    storage = f"sqlite:///{tmp_path}/c.db"
    with create_campaign(
        "spring", data={"edges": edges, "users": users}, storage=storage, policy=HighDegree()
    ) as campaign:
        ask = campaign.ask(k=30)
        campaign.close(ask.id)
        assert {entry.id for entry in campaign.progress(segment="town").segments} == {"Liliput", "Paris", "Rome"}
        campaign.forget("person-000")
        found = {entry.id: entry.contacts for entry in campaign.progress(segment="town").segments}
        assert found == {"Paris": 14, "Rome": 15}
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    # How columns become features knows the values of categories too; that is what was learned of all users.
    assert held.count(b"Liliput") <= 1


def test_export_has_the_names(tmp_path: Path):
    campaign = made()
    campaign.export(tmp_path / "out")
    tables = {
        name: pl.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("users", "products", "strategies")
    }
    assert tables["users"]["name"][2] == "Person Number 002"
    assert tables["products"]["name"].to_list() == ["Green tea", "Lavender soap"]
    assert tables["strategies"]["name"].to_list() == ["By mail", None]
