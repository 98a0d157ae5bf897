"""Any sequence of transactions, some of them undone, leaves the same in memory and in SQLite."""

import tempfile
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from store.content import ROUND, content, edges, nodes
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.store import open_store

small = st.integers(0, 3)
seqs = st.integers(1, 40)
times = st.one_of(st.just(float("nan")), st.floats(allow_nan=False, allow_infinity=False))
event_ids = st.one_of(st.none(), st.sampled_from("abcdefgh"), st.text(max_size=3))
edge_lists = st.lists(st.tuples(small, small, st.sampled_from([0.0, 1.0, 0.3]), times, event_ids), max_size=4)
node_lists = st.lists(st.tuples(small, times, event_ids), max_size=4)
ids = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, "1", 2, "2"]), st.text(max_size=3))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)
payloads = st.dictionaries(st.text(), json_values, max_size=3)
changes = st.one_of(
    st.builds(lambda n, p: lambda s, c: s.insert_campaign(n, p, 0.5), st.sampled_from("abc"), payloads),
    st.builds(lambda: lambda s, c: s.delete_campaign(c)),
    st.builds(lambda n, d: lambda s, c: s.put_blob(c, n, d), st.sampled_from("abc"), st.binary(max_size=5)),
    st.builds(lambda n: lambda s, c: s.delete_blobs(c, n), st.lists(st.sampled_from("abc"))),
    st.builds(lambda i: lambda s, c: s.add_users(c, [i]), ids),
    st.builds(lambda p, r: lambda s, c: s.append_event(c, "x", r, p, 1.5), payloads, st.none() | small),
    st.builds(
        lambda n, i, q, p: lambda s, c: s.put_round(c, replace(ROUND, number=n, id=i, request_id=q, payload=p)),
        small,
        st.sampled_from("abcd"),
        st.none() | st.sampled_from("xyz"),
        payloads,
    ),
    st.builds(lambda r, e, q: lambda s, c: s.add_responses(c, r, edges(*e), q), small, edge_lists, seqs),
    st.builds(lambda r, e, q: lambda s, c: s.add_responses(c, r, nodes(*e), q), small, node_lists, seqs),
    st.builds(lambda q, p: lambda s, c: s.replace_event_payload(c, q, p), small, payloads),
    st.builds(lambda k: lambda s, c: s.erase_user(c, k), small),
    st.builds(lambda i: lambda s, c: s.known_event_ids(c, i), st.lists(st.sampled_from("abcdefgh"))),
)
transactions = st.lists(
    st.tuples(st.lists(st.tuples(changes, st.integers(1, 2)), max_size=6), st.booleans()), max_size=6
)


class UndoneError(Exception):
    pass


def _apply(store, transaction, undo):
    """What each change answered, until one was refused."""
    answers = []
    try:
        with store.write() as session:
            for change, campaign in transaction:
                answers.append(repr(change(session, campaign)))
            if undo:
                raise UndoneError
    except (InputError, UndoneError) as error:
        answers.append(UnknownIdError if isinstance(error, UnknownIdError) else type(error))
    return answers


@settings(deadline=None, max_examples=25)
@given(transactions)
def test_memory_and_sqlite_agree(history):
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.db") as disk:
        memory = open_store("memory://")
        for transaction, undo in [([(lambda s, c: s.insert_campaign("first", {}, 0.0), 1)], False), *history]:
            assert _apply(memory, transaction, undo) == _apply(disk, transaction, undo)
            with memory.read() as one, disk.read() as other:
                assert content(one) == content(other)
