"""What every store must do; a subclass gives the ``store`` fixture."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

from store.content import (
    NOBODY,
    ROUND,
    Preference,
    TokenRecord,
    amounts,
    content,
    edge_rows,
    edges,
    fill,
    node_rows,
    nodes,
    told,
)
from tensorucb.errors import InputError, ShapeError, StateError, UnknownIdError


class StoreContract:
    @pytest.fixture
    def store(self):
        raise NotImplementedError

    @pytest.fixture
    def campaign(self, store):
        with store.write() as session:
            return session.insert_campaign("spring", {}, 0.0).campaign

    def test_everything_comes_back_as_it_went_in(self, store):
        with store.write() as session:
            number = fill(session)
            inside = content(session)
        with store.read() as session:
            assert content(session) == inside
            [(record, blobs, users, events, rounds, [edge], [node], [worth], why, said)] = inside
        assert worth == [[None, 9.99], [None, 0.0]]
        assert (record.campaign, record.name, record.created) == (number, "spring", 1.25)
        assert record.settings == {"policy": "tensor_ucb", "seed": 7}
        assert blobs[:2] == [("graph", bytes(range(256))), ("snapshot/3", b"")]
        assert users == [7, "7", "Zoë ✓", -(2**63)]
        assert [(e.seq, e.kind, e.round, e.payload, e.created) for e in events] == [
            (1, "ask", 1, {"k": 2, "seeds": [7, "7"]}, 10.5),
            (2, "note", None, {}, 11.0),
        ]
        assert rounds == [replace(ROUND, request_id="ask-1", deadline=99.5)]
        assert edge == [(0, 3, 0.0, None, None), (2, 1, 1.0, 11.5, "e-1")]
        assert node == [(3, None, None), (3, 12.5, "n-1")]
        assert why == [b"why"]
        assert said == [Preference(5, "no", 12.0), Preference(2**63 - 1, "yes", 13.5)]

    def test_columns_have_their_types_even_when_empty(self, store, campaign):
        with store.read() as session:
            assert session.users(campaign) == []
            rows = told(session, campaign, 5)
        assert [c.dtype for c in (rows.sources, rows.targets)] == [np.int64] * 2
        assert [c.dtype for c in (rows.outcomes, rows.times, rows.amounts)] == [np.float64] * 3
        assert list(rows.event_ids) == []

    def test_floats_are_kept_to_the_bit(self, store, campaign):
        values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.1, math.pi, float(2**53), math.inf]
        with store.write() as session:
            session.add_responses(campaign, 1, edges(*((0, i, v, v, None) for i, v in enumerate(values))), 1)
        with store.read() as session:
            rows = told(session, campaign, 1)
        assert rows.outcomes.tobytes() == rows.times.tobytes() == np.array(values).tobytes()

    def test_a_name_is_given_once(self, store):
        with store.write() as session:
            session.insert_campaign("b", {}, 0.0)
            session.insert_campaign("a", {}, 0.0)
        with pytest.raises(InputError, match="'a'"), store.write() as session:
            session.insert_campaign("a", {"other": 1}, 1.0)
        with store.read() as session:
            assert [record.name for record in session.campaigns()] == ["b", "a"]
            assert session.campaign("a").settings == {}
            assert session.campaign("c") is None

    def test_a_deleted_campaign_takes_its_rows_and_nothing_else(self, store):
        with store.write() as session:
            first, second = fill(session, "first"), fill(session, "second")
        with store.read() as session:
            kept = content(session)[0]
        with store.write() as session:
            session.delete_campaign(second)
        with store.write() as session:
            assert content(session) == [kept]
            assert session.known_event_ids(second, ["e-1", "n-1"]) == {}
            assert told(session, second, 1).size == 0
            third = session.insert_campaign("third", {}, 0.0).campaign
            assert session.append_event(third, "new", None, {}, 0.0) == 1
        assert third not in (first, second)

    @pytest.mark.parametrize("size", [9, 10, 11, 20, 35])
    def test_a_blob_larger_than_a_piece_comes_back_whole(self, store, campaign, monkeypatch, size):
        monkeypatch.setattr("tensorucb.store._session.PIECE_BYTES", 10)
        data = bytes(range(size))
        with store.write() as session:
            session.put_blob(campaign, "large", bytes(50))
            session.put_blob(campaign, "large", data)
            session.put_blob(campaign, "Large", b"another")
        with store.write() as session:
            assert session.blobs(campaign) == ["Large", "large"]
            assert session.blob(campaign, "large") == data
            session.delete_blobs(campaign, ["large"])
            assert session.blob(campaign, "large") is None
            session.put_blob(campaign, "large", b"short")
            assert session.blob(campaign, "large") == b"short"
            assert session.blob(campaign, "Large") == b"another"

    def test_blobs_are_replaced_listed_and_removed(self, store, campaign):
        with store.write() as session:
            for name in ("b", "a/2", "a/10", "a_", "A/1"):
                session.put_blob(campaign, name, name.encode())
            session.put_blob(campaign, "b", b"\x00new")
        with store.write() as session:
            assert session.blobs(campaign) == ["A/1", "a/10", "a/2", "a_", "b"]
            assert session.blobs(campaign, "a/") == ["a/10", "a/2"]
            assert session.blob(campaign, "b") == b"\x00new"
            session.delete_blobs(campaign, ["a/2", "absent", "b"])
            session.delete_blobs(campaign, [])
            assert session.blobs(campaign) == ["A/1", "a/10", "a_"]
            assert session.blob(campaign, "b") is None

    @pytest.mark.parametrize("ids", [["7"], [7], ["x", "x"], ["new", -(2**63)]])
    def test_an_id_of_a_user_is_given_once(self, store, ids):
        with store.write() as session:
            number = fill(session)
            before = content(session)
        with pytest.raises(InputError, match=r"such a row; nothing was written\.$"), store.write() as session:
            session.add_users(number, ids)
        with store.read() as session:
            assert content(session) == before

    def test_events_are_numbered_within_their_campaign(self, store):
        with store.write() as session:
            a, b = (session.insert_campaign(name, {}, 0.0).campaign for name in "ab")
            assert [session.append_event(a, "x", None, {"i": i}, 0.0) for i in range(5)] == [1, 2, 3, 4, 5]
            assert session.append_event(b, "x", 3, {}, 0.0) == 1
        with store.read() as session:
            assert [event.seq for event in session.events(a, since=2)] == [3, 4, 5]
            assert session.events(a, since=5) == []

    def test_payloads_are_the_stores_own(self, store, campaign):
        payload = {"list": [1], "nested": {"b": 1, "a": None}}
        with store.write() as session:
            session.append_event(campaign, "x", None, payload, 0.0)
            payload["list"].append(2)
            session.events(campaign)[0].payload["list"].append(3)
        with store.read() as session:
            assert session.events(campaign)[0].payload == {"list": [1], "nested": {"a": None, "b": 1}}

    def test_an_events_payload_is_replaced_on_purpose_only(self, store, campaign):
        with store.write() as session:
            seq = session.append_event(campaign, "x", None, {"user": "ann"}, 0.0)
            session.replace_event_payload(campaign, seq, {})
            with pytest.raises(UnknownIdError, match="no event 9"):
                session.replace_event_payload(campaign, 9, {})
        with store.read() as session:
            assert session.events(campaign)[0].payload == {}

    def test_rounds_are_replaced_and_found_by_number(self, store, campaign):
        first = replace(ROUND, request_id="q")
        second = replace(ROUND, number=2, id="r-2")
        closed = replace(first, status="closed", closed=20.25, revision=8, payload={"seeds": []})
        with store.write() as session:
            for record in (first, second, closed):
                session.put_round(campaign, record)
            with pytest.raises(InputError, match="next round has number 3"):
                session.put_round(campaign, replace(ROUND, number=4, id="r-4"))
        with store.read() as session:
            assert session.rounds(campaign) == [closed, second]
            assert session.round(campaign, 2) == second
            assert session.round(campaign, 3) is None

    @pytest.mark.parametrize("twice", [{"id": "r-1"}, {"id": "r-2", "request_id": "q"}])
    def test_a_rounds_id_and_request_are_given_once(self, store, campaign, twice):
        with store.write() as session:
            session.put_round(campaign, replace(ROUND, request_id="q"))
        with pytest.raises(InputError, match=r"such a row; nothing was written\.$"), store.write() as session:
            session.put_round(campaign, replace(ROUND, number=2, **twice))
        with store.read() as session:
            assert len(session.rounds(campaign)) == 1

    def test_responses_come_back_in_order_however_they_came(self, store, campaign):
        with store.write() as session:
            session.add_responses(campaign, 1, edges((2, 1, 1, 1, "b"), (1, 9, 0, 2, None)), 1)
            session.add_responses(campaign, 1, edges((1, 2, 1, 3, "a"), (10, 0, 0, 4, None)), 2)
            session.add_responses(campaign, 2, edges((1, 2, 0, 5, None)), 3)
            session.add_responses(campaign, 1, nodes((5, 2.0, "c"), (5, 2.0, None), (5, 1.0, "ä")), 4)
            session.add_responses(campaign, 1, nodes((5, 2.0, "Z"), (4, 9.0, "d")), 5)
            session.add_responses(campaign, 3, edges(), 6)
            session.add_responses(campaign, 3, nodes(), 6)
        with store.read() as session:
            found = edge_rows(told(session, campaign, 1))
            assert [(row[0], row[1], row[4]) for row in found] == [
                (1, 2, "a"),
                (1, 9, None),
                (2, 1, "b"),
                (10, 0, None),
            ]
            assert node_rows(told(session, campaign, 1)) == [
                (4, 9.0, "d"),
                (5, 1.0, "ä"),
                (5, 2.0, "c"),
                (5, 2.0, None),
                (5, 2.0, "Z"),
            ]

    @pytest.mark.parametrize(
        "again",
        [
            edges((8, 8, 1, 0, None), (9, 9, 1, 0, "e-1")),
            edges((8, 8, 1, 0, None), (9, 9, 1, 0, "n-1")),
            edges((8, 8, 1, 0, "same"), (9, 9, 1, 0, "same")),
        ],
    )
    def test_no_event_id_is_stored_twice_and_a_refused_batch_leaves_nothing(self, store, again):
        with store.write() as session:
            number = fill(session)
            before = content(session)
        with pytest.raises(InputError), store.write() as session:  # noqa: PT012
            session.append_event(number, "tell", 1, {}, 0.0)
            session.add_responses(number, 1, again, 3)
        with store.read() as session:
            assert content(session) == before

    def test_an_event_id_of_an_edge_is_none_of_a_node_event(self, store):
        with store.write() as session:
            number = fill(session)
        for rows in (nodes((1, 1.0, "e-1")), nodes((1, 1.0, "n-1"))):
            with pytest.raises(InputError, match="already holds"), store.write() as session:
                session.add_responses(number, 2, rows, 3)

    def test_event_ids_are_known_across_rounds_and_kinds(self, store):
        with store.write() as session:
            number, other = fill(session), fill(session, "other")
            many = [f"m-{i}" for i in range(5000)]
            session.add_responses(number, 2, edges(*((i, 0, 0, math.nan, name) for i, name in enumerate(many))), 3)
            session.add_responses(other, 3, edges((1, 1, 1, 1.0, "only-other")), 3)
        with store.read() as session:
            assert session.known_event_ids(number, ["n-1", "e-1", "absent", "only-other"]) == {
                "e-1": (1, (2, 1, 1.0, 11.5)),
                "n-1": (1, (NOBODY, 3, 1.0, 12.5)),
            }
            found = session.known_event_ids(number, [*many, *(f"x-{i}" for i in range(5000))])
            assert set(found) == set(many)
            assert found["m-17"] == (2, (17, 0, 0.0, None))
            assert session.known_event_ids(number, []) == {}

    def test_a_response_that_is_repeated_with_an_amount_is_erased_as_one(self, store):
        with store.write() as session:
            number = fill(session)
            session.add_responses(number, 1, edges((0, 3, 0, math.nan, None, 4.5)), 2)
        with store.write() as session:
            assert amounts(session, number, 1) == [[None, 4.5, 9.99], [None, 0.0]]
            assert session.erase_user(number, 0) == 1
            assert amounts(session, number, 1) == [[9.99], [None, 0.0]]

    def test_an_erased_user_leaves_no_row(self, store):
        with store.write() as session:
            number, other = fill(session), fill(session, "other")
            session.add_responses(number, 1, edges((3, 2, 1, 0, "gone"), (1, 2, 1, 0, "stays")), 3)
        with store.read() as session:
            kept = content(session)[1]
        with store.write() as session:
            assert session.erase_user(number, 3) == 4
            assert session.erase_user(number, 3) == 0
        with store.read() as session:
            assert session.users(number) == [7, "7", "Zoë ✓"]
            assert edge_rows(told(session, number, 1)) == [(1, 2, 1, 0, "stays"), (2, 1, 1, 11.5, "e-1")]
            assert node_rows(told(session, number, 1)) == []
            assert set(session.known_event_ids(number, ["gone", "n-1", "stays"])) == {"stays"}
            assert content(session)[1] == kept
            assert session.campaigns()[1].campaign == other

    def test_users_behind_an_erased_one_move_up_with_their_responses(self, store):
        with store.write() as session:
            number = fill(session)
            session.add_responses(number, 2, edges((3, 2, 1, 5.0, "moves"), (1, 3, 1, 0, "goes")), 3)
            session.add_responses(number, 2, edges((2, 3, 0, 6.0, None)), 9)
            session.add_responses(number, 2, nodes((1, 1.0, "gone"), (2, 2.0, None)), 4)
        with store.write() as session:
            assert session.erase_user(number, 1) == 3
        with store.read() as session:
            assert session.users(number) == [7, "Zoë ✓", -(2**63)]
            assert edge_rows(told(session, number, 1)) == [(0, 2, 0, None, None)]
            assert edge_rows(told(session, number, 2)) == [(1, 2, 0, 6.0, None), (2, 1, 1, 5.0, "moves")]
            assert edge_rows(told(session, number, 2, 3)) == [(2, 1, 1, 5.0, "moves")]
            assert node_rows(told(session, number, 2)) == [(1, 2.0, None)]
            assert session.known_event_ids(number, ["n-1"])["n-1"] == (1, (NOBODY, 2, 1.0, 12.5))

    def test_what_people_said_is_kept_by_campaign_and_for_all(self, store):
        with store.write() as session:
            number, other = fill(session), fill(session, "other")
            session.put_preferences(0, [Preference(7, "no", 1.0)])
            session.put_preferences(number, [Preference(5, "yes", 20.0), Preference(6, "no", 21.0)])
            session.put_preferences(other, [Preference(5, "", 22.0), Preference(99, "", 22.0)])
        with store.read() as session:
            last = Preference(2**63 - 1, "yes", 13.5)
            assert session.preferences(number) == [Preference(5, "yes", 20.0), Preference(6, "no", 21.0), last]
            assert session.preferences(other) == [last]
            assert session.preferences(0) == [Preference(7, "no", 1.0)]
            with pytest.raises(StateError, match="read-only"):
                session.put_preferences(0, [])
        with store.write() as session:
            session.delete_campaign(number)
            assert session.preferences(number) == []
            assert session.preferences(0) == [Preference(7, "no", 1.0)]
            with pytest.raises(UnknownIdError):
                session.put_preferences(number, [])

    def test_rounds_that_were_opened_after_a_moment(self, store):
        with store.write() as session:
            number = fill(session)
            session.put_round(number, replace(ROUND, number=2, id="r-2", opened=30.0))
        with store.read() as session:
            assert [at.number for at in session.rounds_since(number, 10.5)] == [2]
            assert [at.number for at in session.rounds_since(number, 0.0)] == [1, 2]

    def test_an_error_in_the_block_undoes_all_of_it(self, store):
        with store.write() as session:
            number = fill(session)
            before = content(session)
        with pytest.raises(ZeroDivisionError), store.write() as session:  # noqa: PT012
            fill(session, "another")
            session.erase_user(number, 3)
            session.put_blob(number, "graph", b"other")
            session.replace_event_payload(number, 1, {})
            session.delete_blobs(number, ["snapshot/3"])
            _ = 1 / 0
        with store.read() as session:
            assert content(session) == before

    def test_a_reader_sees_one_moment_and_stops_no_writer(self, store):
        with store.write() as session:
            number = fill(session)
        with store.read() as reader:
            with store.write() as session:
                session.append_event(number, "later", None, {}, 0.0)
                fill(session, "second")
            assert [event.kind for event in reader.events(number)] == ["ask", "note"]
            assert len(reader.campaigns()) == 1
            with store.read() as fresh:
                assert len(fresh.campaigns()) == 2
        with store.write() as session:
            session.append_event(number, "unfinished", None, {}, 0.0)
            with store.read() as reader:
                assert [event.kind for event in reader.events(number)] == ["ask", "note", "later"]

    def test_a_view_writes_nothing_and_a_session_ends_with_its_block(self, store, campaign):
        with store.read() as view:
            for change in (
                lambda: view.insert_campaign("x", {}, 0.0),
                lambda: view.append_event(campaign, "x", None, {}, 0.0),
                lambda: view.add_users(campaign, ["x"]),
            ):
                with pytest.raises(StateError, match="read-only"):
                    change()
        with store.write() as session:
            session.append_event(campaign, "x", None, {}, 0.0)
        for late in (lambda: view.campaigns(), lambda: session.add_users(campaign, ["x"])):
            with pytest.raises(StateError, match="over"):
                late()

    def test_a_write_inside_a_write_is_refused_at_once(self, store, campaign):
        with store.write() as session:
            session.append_event(campaign, "x", None, {}, 0.0)
            with pytest.raises(StateError, match="already writes"), store.write():
                pass
        with store.read() as view:
            assert len(view.events(campaign)) == 1

    def test_a_campaign_that_does_not_exist_takes_no_rows(self, store):
        with store.write() as session:
            for change in (
                lambda: session.append_event(99, "x", None, {}, 0.0),
                lambda: session.put_blob(99, "x", b""),
                lambda: session.put_round(99, ROUND),
                lambda: session.add_responses(99, 1, edges((1, 1, 1, 1, None)), 1),
                lambda: session.erase_user(99, 1),
                lambda: session.delete_campaign(99),
            ):
                with pytest.raises(UnknownIdError, match="99"):
                    change()
            assert (session.rounds(99), session.events(99), session.blobs(99)) == ([], [], [])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda s, c: s.append_event(c, "x", None, {"a": np.zeros(2)}, 0.0), "plain JSON"),
            (lambda s, c: s.append_event(c, "x", None, {1: "a", "b": 2}, 0.0), "plain JSON"),
            (lambda s, c: s.insert_campaign("nul\0", {}, 0.0), "NUL"),
            (lambda s, c: s.put_blob(c, "\udc80", b""), "valid Unicode"),
            (lambda s, c: s.add_users(c, [True]), "True"),
            (lambda s, c: s.add_users(c, [1.5]), "1.5"),
            (lambda s, c: s.add_users(c, [2**63]), "64 bits"),
            (lambda s, c: s.add_users(c, ["a\0"]), "NUL"),
            (lambda s, c: s.add_responses(c, 1, edges((1, 1, 1, 1, "\0")), 1), "NUL"),
            (lambda s, c: s.add_responses(c, 1, edges((1, 1, 1, 1, 5)), 1), "event id"),
        ],
    )
    def test_what_no_database_can_hold_is_refused_alike(self, store, campaign, change, message):
        with pytest.raises(InputError, match=message), store.write() as session:
            change(session, campaign)

    def test_columns_of_different_lengths_are_refused(self, store, campaign):
        rows = replace(edges((1, 1, 1, 1, None)), event_ids=[None, None])
        with store.write() as session, pytest.raises(ShapeError, match=r"\[1, 2\]"):
            session.add_responses(campaign, 1, rows, 1)

    def test_threads_share_a_store(self, store, campaign):
        failures = []

        def work(thread):
            try:
                for i in range(10):
                    with store.write() as session:
                        seq = session.append_event(campaign, "x", None, {"from": [thread, i]}, 0.0)
                        session.add_responses(campaign, 1, edges((thread, i, 1, 0, f"{thread}-{i}")), seq)
                    with store.read() as view:
                        assert len(view.events(campaign)) >= seq
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with store.read() as view:
            assert [event.seq for event in view.events(campaign)] == list(range(1, 81))
            assert len({tuple(event.payload["from"]) for event in view.events(campaign)}) == 80
            assert told(view, campaign, 1).size == 80

    def test_tokens_are_kept_by_name(self, store):
        ann, bob = TokenRecord("ann", "read", "aa", 1.5), TokenRecord("bob", "admin", "bb", 2.5)
        with store.write() as session:
            before = session.tokens()
            session.put_token(bob)
            session.put_token(ann)
        with store.read() as session:
            assert session.tokens() == [*before, ann, bob]
            assert len(session.secret()) == 32
        with pytest.raises(InputError, match="called 'ann' already"), store.write() as session:
            session.put_token(replace(ann, hash="cc"))
        with store.write() as session:
            session.delete_token("ann")
            session.delete_token("bob")
            assert session.tokens() == before
            with pytest.raises(UnknownIdError, match="no token called 'ann'"):
                session.delete_token("ann")

    def test_ended_logins_are_kept_for_their_time(self, store):
        with store.write() as session:
            session.end_login("first", 10.0, 1.0)
            session.end_login("second", 20.0, 1.0)
            session.end_login("second", 20.0, 2.0)
            session.end_login("late", 1.5, 2.0)
            assert session.ended_logins() == {"first": 10.0, "second": 20.0}
        with store.write() as session:
            session.end_login("third", 30.0, 10.0)
        with store.read() as session:
            assert session.ended_logins() == {"second": 20.0, "third": 30.0}

    def test_rounds_are_counted_and_due_ones_found_over_all_campaigns(self, store):
        with store.write() as session:
            numbers = [session.insert_campaign(name, {}, 0.0).campaign for name in ("late", "early", "none", "past")]
            late, early, _, past = numbers
            session.put_round(late, replace(ROUND, status="open", deadline=30.0))
            session.put_round(early, replace(ROUND, status="open", deadline=10.0))
            session.put_round(early, replace(ROUND, number=2, id="r-2", status="open", deadline=None))
            session.put_round(early, replace(ROUND, number=3, id="r-3", status="cancelled", deadline=5.0))
            session.put_round(past, replace(ROUND, status="closed", deadline=1.0))
        with store.read() as session:
            counts = session.round_counts()
            assert [counts.get(number) for number in numbers] == [
                {"open": 1},
                {"open": 2, "cancelled": 1},
                None,
                {"closed": 1},
            ]
            mine = {"late", "early", "none", "past"}
            assert [name for name in session.due_campaigns(9.0) if name in mine] == []
            assert [name for name in session.due_campaigns(10.0) if name in mine] == ["early"]
            assert [name for name in session.due_campaigns(99.0) if name in mine] == ["late", "early"]

    def test_purge_keeps_what_is_there(self, store):
        with store.write() as session:
            number = fill(session)
            session.erase_user(number, 3)
            before = content(session)
        store.purge()
        with store.read() as session:
            assert content(session) == before
