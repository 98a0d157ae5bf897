"""People who said no, who did not say yes, or who were contacted often enough: they are never in a round."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from campaign.workers import CONTEXT, ask_under_a_cap
from campaign.worlds import Clock, small_campaign, small_graph
from tensorucb.campaign import copy_campaign, create_campaign, delete_campaign, load_campaign, read_campaign_data
from tensorucb.errors import FileFormatError, InputError, UnknownIdError
from tensorucb.policies import HighDegree, LinUCB

WEEK = 7 * 86400.0
STRATEGIES = {"strategies": {"email": [1.0, 0.0], "letter": [0.0, 1.0]}, "strategy_costs": {"letter": 2.0}}


class Interrupted(LinUCB):
    """A policy that lets something happen after the question is read and before the round is opened."""

    name = "Interrupted"
    meanwhile = None

    def choose(self, product, k, oracle):
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return super().choose(product, k, oracle)


def everybody(campaign):
    return campaign.graph.ids.tolist()


def new_user(campaign, user, **more):
    campaign.add_users([user], np.zeros((1, 3)), [user], ["person-002"], **more)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/c.db"


def test_who_opted_out_is_never_asked_again(url):
    campaign = small_campaign(url, **STRATEGIES)
    best = campaign.ask("tea", 4, strategies="all").seeds
    report = campaign.opt_out(best)
    assert (report.users, report.unknown, report.changed, report.in_open_rounds) == (4, 0, 4, 4)
    assert campaign.opt_out(best).changed == 0
    later = load_campaign("spring", storage=url, clock=Clock())
    assert later.opted_out() == tuple(sorted(best))
    asked = [
        later.ask("tea", 10, strategies="all", holdout=0.3),
        later.ask("tea", 10, strategies="all", per_user=True),
        later.preview("tea", 10, strategies="all"),
    ]
    for ask in asked:
        assert not set(best) & {*ask.seeds, *getattr(ask, "held_out", ())}
    with pytest.raises(InputError, match=f"the list in users names '{best[0]}', who has opted out"):
        later.ask("tea", strategies="all", users=[best[0]])
    with pytest.raises(InputError, match=f"must_include names '{best[0]}', who has opted out"):
        later.ask("tea", 3, strategies="all", must_include=[best[0]])
    with pytest.raises(InputError, match=r"26 may be chosen \(4 opted out\)"):
        later.ask("tea", 27, strategies="all")
    why = later.explain(asked[0].id, best[1])
    assert (why.status, why.text) == ("opt_out", f"'{best[1]}' was not considered, since this user has opted out.")
    assert later.why_not(best[0]) == "has opted out"
    assert (later.status().opted_out, later.status().opted_out_unknown) == (4, 0)
    assert later.opt_in(best).changed == 4
    assert later.why_not(best[0]) is None
    assert set(later.ask("tea", 4, strategies="all").seeds) == set(best)


def test_the_log_says_that_people_opted_out_and_not_who(url, tmp_path):
    campaign = small_campaign(url)
    campaign.opt_out(["person-001", "somebody-else"])
    campaign.opt_in(["person-001"])
    campaign.opt_in(["person-001"])
    campaign.export(tmp_path / "out")
    events = pl.read_parquet(tmp_path / "out" / "events.parquet")
    assert events["kind"].to_list() == ["created", "opted_out", "opted_in"]
    assert events["payload"].to_list()[1:] == [
        '{"everywhere": false, "people": 2}',
        '{"everywhere": false, "people": 1}',
    ]
    campaign.disconnect()
    assert b"somebody-else" not in (tmp_path / "c.db").read_bytes()


def test_who_is_no_user_yet_has_opted_out_when_they_join():
    campaign = small_campaign()
    report = campaign.opt_out(["zoe", "person-001", "zoe"])
    assert (report.users, report.unknown, report.changed) == (1, 1, 2)
    assert campaign.status().opted_out_unknown == 1
    new_user(campaign, "zoe")
    assert campaign.why_not("zoe") == "has opted out"
    assert (campaign.status().opted_out, campaign.status().opted_out_unknown) == (2, 0)
    with pytest.raises(UnknownIdError, match="'yan'"):
        campaign.why_not("yan")


def test_opt_outs_from_a_table(tmp_path):
    campaign = small_campaign()
    frame = pl.DataFrame({"when": [1, 2], "Customer": ["person-001", "person-002"]})
    assert campaign.opt_out(frame).users == 2
    frame.to_pandas().replace("person-002", "person-003").to_csv(tmp_path / "out.csv", sep=";", index=False)
    assert campaign.opt_out(tmp_path / "out.csv").changed == 1
    assert set(campaign.opted_out()) == {"person-001", "person-002", "person-003"}
    assert campaign.opt_in(str(tmp_path / "out.csv")).users == 2
    assert campaign.opted_out() == ("person-002",)
    with pytest.raises(InputError, match="users must be a column of whole numbers or strings; got 'person-001'"):
        campaign.opt_out("person-001")
    (tmp_path / "torn.csv").write_text("user,when\nperson-004,1\n,2\n")
    with pytest.raises(FileFormatError, match=r"1 of 2 rows cannot be used: user is empty \(line 3\). Mend them"):
        campaign.opt_out(tmp_path / "torn.csv")
    assert campaign.why_not("person-004") is None


def test_numbers_and_their_texts_are_the_same_people():
    campaign = small_campaign(graph=small_graph(strings=False))
    assert campaign.opt_out(["7", "zoe"]).users == 1
    assert campaign.opted_out() == (7,)
    assert campaign.opt_in([7]).changed == 1


def test_everywhere_is_every_campaign_of_the_store_also_later_ones(url):
    spring = small_campaign(url)
    autumn = small_campaign(url, name="autumn")
    numbers = small_campaign(url, name="numbers", graph=small_graph(strings=False))
    assert autumn.opted_out() == ()
    assert spring.opt_out(["person-001", "7"], everywhere=True).changed == 2
    spring.opt_out(["person-002"])
    assert autumn.opted_out() == ("person-001",)
    assert numbers.opted_out() == (7,)
    assert spring.opted_out() == ("person-001", "person-002")
    winter = small_campaign(url, name="winter")
    assert winter.opted_out() == ("person-001",)
    # Who opted out everywhere is not contacted because one campaign says otherwise.
    report = winter.opt_in(["person-001"])
    assert (report.changed, report.still_out) == (0, 1)
    assert winter.why_not("person-001") == "has opted out"
    assert winter.opt_in(["person-001", "person-002"], everywhere=True).changed == 2
    assert spring.opted_out() == autumn.opted_out() == winter.opted_out() == ()
    assert numbers.opted_out() == (7,)
    delete_campaign("spring", storage=url)
    assert small_campaign(url, name="spring", graph=small_graph(strings=False)).opted_out() == (7,)


def test_somebody_opts_out_while_the_choice_is_made(url):
    policy = Interrupted()
    campaign = small_campaign(url, policy=policy)
    best = campaign.preview("tea", 3).seeds
    other = load_campaign("spring", storage=url, policy=Interrupted(), clock=Clock())
    policy.meanwhile = lambda: other.opt_out(best[:1])
    assert best[0] not in campaign.ask("tea", 3).seeds


def test_an_opt_out_outlives_the_person_who_is_forgotten(url, tmp_path):
    campaign = small_campaign(url, consent=["yes"] * 15 + [None] * 15)
    campaign.opt_out(["person-001", "person-003"])
    campaign.opt_in(["person-020"])
    assert campaign.why_not("person-020") is None
    for user in ("person-001", "person-020"):
        report = campaign.forget(user)
        assert report.proven
        assert report.bytes_absent
    assert (campaign.status().opted_out, campaign.status().opted_out_unknown) == (1, 1)
    assert campaign.opted_out() == ("person-003",)
    new_user(campaign, "person-001", consent=[True])
    new_user(campaign, "person-020")
    assert campaign.why_not("person-001") == "has opted out"
    assert campaign.why_not("person-020") == "has given no consent"
    campaign.opt_in(["person-001"])
    assert campaign.why_not("person-001") is None
    assert campaign.model_hash() == campaign.replay_hash()


def test_a_copy_keeps_what_people_said(url, tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    campaign = small_campaign(url, contact_group="g", contact_cap="1/7d")
    campaign.opt_out(["person-001", "zoe"])
    campaign.opt_out(["person-002"], everywhere=True)
    asked = campaign.ask("tea", 3)
    copy_campaign("spring", "copy", storage=url)
    copy_campaign("spring", "copy", storage=url, to=other)
    for place in (url, other):
        copy = load_campaign("copy", storage=place, clock=Clock())
        assert copy.opted_out() == ("person-001", "person-002")
        new_user(copy, "zoe")
        assert copy.why_not("zoe") == "has opted out"
        assert "contact cap" in copy.why_not(asked.seeds[0])
    # The contacts of the copy are the same contacts.
    assert "contact_group" not in load_campaign("copy", storage=url).settings
    assert load_campaign("copy", storage=other).settings["contact_group"] == "g"


def test_an_export_says_who_may_not_be_contacted(tmp_path):
    campaign = small_campaign(consent=[True] * 29 + [False])
    campaign.opt_out(["person-001"])
    campaign.export(tmp_path)
    users = pl.read_parquet(tmp_path / "users.parquet")
    assert users.filter("opted_out")["user"].to_list() == ["person-001"]
    assert users.filter(~pl.col("consent"))["user"].to_list() == ["person-029"]


@pytest.mark.parametrize("word", ["yes", "Y", " TRUE ", 1, 1.0, "1", "on", True])
def test_words_for_consent(word):
    graph = small_graph(3, 4)
    campaign = create_campaign("c", graph=graph, policy=HighDegree(), storage="memory://", consent=[word, None, word])
    assert [campaign.why_not(user) for user in everybody(campaign)] == [None, "has given no consent", None]
    with pytest.raises(InputError, match=r"consent must be yes or no .*; got 'perhaps' in row 2"):
        create_campaign("d", graph=graph, storage="memory://", consent=["no", "perhaps", word])
    with pytest.raises(InputError, match="consent must hold one value for each of the 3 users"):
        create_campaign("d", graph=graph, storage="memory://", consent=["no"])


def test_consent_is_a_column_of_a_table_and_no_feature():
    graph = small_graph(4, 6)
    users = pl.DataFrame({"user": graph.ids[::-1].tolist(), "age": [1.0, 2.0, 3.0, 4.0], "ok": [1, 0, 1, None]})
    campaign = create_campaign("c", graph=graph, users=users, consent="ok", storage="memory://", policy=LinUCB())
    assert campaign.status().no_consent == 2
    assert campaign.why_not("person-000") == campaign.why_not("person-002") == "has given no consent"
    campaign.add_users(["p", "q"], pl.DataFrame({"user": ["q", "p"], "age": [5.0, 6.0], "ok": ["no", "yes"]}))
    campaign.add_users(["r"], [[7.0]])
    assert [campaign.why_not(user) is None for user in ("p", "q", "r")] == [True, False, False]
    campaign.opt_in(["r"])
    assert campaign.why_not("r") is None
    asked = campaign.ask(k=4)
    assert set(asked.seeds) == {"person-001", "person-003", "p", "r"}
    assert asked.explain().left_out == {"no_consent": 3}
    with pytest.raises(InputError, match="consent must be a column of the table of users"):
        create_campaign("d", graph=graph, users=users, consent="okay", storage="memory://")


def test_consent_that_is_given_counts_more_than_a_column():
    graph = small_graph(3, 4)
    users = pl.DataFrame({"user": graph.ids[::-1].tolist(), "consent": ["no", "no", "no"]})
    campaign = create_campaign("c", graph=graph, users=users, consent=["yes", "yes", "no"], storage="memory://")
    assert [campaign.why_not(user) for user in everybody(campaign)] == [None, None, "has given no consent"]


def test_consent_from_files(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\nann,cid\nbob,cid\ncid,dan\ndan,ann\n")
    (tmp_path / "users.csv").write_text("user,age,email_optin\nann,31,yes\nbob,24,no\ncid,45,\n")
    data = read_campaign_data(tmp_path, consent="email_optin")
    assert "  Consent: column email_optin; 1 users may be contacted." in data.report
    assert "email_optin" not in str(data.user_table)
    campaign = create_campaign("c", data=tmp_path, consent="email_optin", storage="memory://")
    assert campaign.ask(k=1).seeds == ("ann",)
    assert {campaign.why_not(user) for user in ("bob", "cid", "dan")} == {"has given no consent"}
    with pytest.raises(InputError, match="Name the column when the files are read: read_campaign_data"):
        create_campaign("d", data=data, consent="email_optin", storage="memory://")


def test_a_cap_counts_contacts_of_all_campaigns_of_the_group(url):
    clock = Clock(1.7e9)
    spring = small_campaign(url, clock=clock, contact_group="g", contact_cap="2/7d")
    autumn = small_campaign(url, name="autumn", clock=clock, contact_group="g")
    alone = small_campaign(url, name="alone", clock=clock, contact_cap="1/1d")
    user = "person-005"
    spring.ask("tea", users=[user])
    clock.now += 86400.0
    autumn.ask("tea", users=[user])
    alone.ask("tea", users=[user])
    # The cap holds for both, whichever of them has it.
    until = "has reached the contact cap until 2023-11-21 22:13 UTC"
    assert spring.why_not(user) == autumn.why_not(user) == until
    assert alone.why_not(user) == "has reached the contact cap until 2023-11-16 22:13 UTC"
    with pytest.raises(InputError, match=f"names '{user}', who {until}"):
        autumn.ask("tea", users=[user])
    asked = autumn.ask("tea", 10)
    assert user not in asked.seeds
    assert autumn.explain(asked.id, user).status == "contact_cap"
    autumn.cancel(asked.id)
    clock.now = 1.7e9 + WEEK
    assert autumn.why_not(user) is None
    shadow = spring.ask("tea", shadow=[user])
    assert autumn.why_not(user) is not None
    spring.cancel(shadow.id)
    assert autumn.why_not(user) is None


def test_another_campaign_of_the_group_asks_while_the_choice_is_made(url):
    policy = Interrupted()
    campaign = small_campaign(url, policy=policy, contact_group="g", contact_cap="1/7d")
    other = small_campaign(url, name="autumn", contact_group="g")
    best = campaign.preview("tea", 3).seeds
    policy.meanwhile = lambda: other.ask("tea", users=best)
    assert not set(best) & set(campaign.ask("tea", 3).seeds)


@pytest.mark.parametrize("cap", ["2", "0/7d", "7d", "2/7", (2, "7d"), "2/", "two/7d"])
def test_caps_that_are_none(cap):
    with pytest.raises(InputError, match="contact_cap"):
        small_campaign(contact_cap=cap)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_cap_holds_with_processes_that_ask_at_once(kind, url, request):
    place = url if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    names = ("spring", "autumn")
    for name in names:
        small_campaign(place, name=name, contact_group="g", contact_cap="2/7d").disconnect()
    pipes, processes = [], []
    for name in names:
        receive, send = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=ask_under_a_cap, args=(place, name, 12, send))
        process.start()
        send.close()
        pipes.append(receive)
        processes.append(process)
    asked = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    assert all(isinstance(rounds, list) for rounds in asked), asked
    contacts = Counter(user for rounds in asked for contacted in rounds for user in contacted)
    # 24 rounds want 72 contacts; 30 users can have 60.
    assert max(contacts.values()) == 2
    assert sum(contacts.values()) == 60


def play_pairs(campaign, clock, *, tired):
    """Three groups of users, each contacted in two weeks; half of the fresh followers respond, and of tired ones."""
    graph = campaign.graph
    best = graph.ids[np.argsort(-graph.out_degree, kind="stable")[:9]].tolist()
    for group in range(3):
        for again in range(2):
            ask = campaign.ask("tea", users=best[group::3])
            rows = [(s, t) for s in ask.contacted for t in followers(graph, s)]
            yes = tired if again else 0.5
            told = [{"source": s, "target": t, "outcome": int(i < yes * len(rows))} for i, (s, t) in enumerate(rows)]
            campaign.tell(ask.id, told)
            campaign.close(ask.id)
            clock.now += WEEK
    return best[2::3]


def test_followers_who_tire_are_told_and_may_rest():
    clock = Clock(1.7e9)
    campaign = small_campaign(clock=clock, graph=small_graph(200, 1000))
    tired_users = play_pairs(campaign, clock, tired=0.02)
    asked = campaign.ask("tea", users=tired_users)
    tired = asked.fatigue
    assert tired.again >= tired.audience / 2
    assert tired.ratio < 0.2
    assert tired.most < 0.75
    assert (tired.rounds, tired.rest) == (5, "18d")
    assert "respond 0." in str(tired)
    assert campaign.round(asked.id).fatigue == tired
    clock.now += WEEK
    fresh = campaign.ask("tea", 3, audience_rest=tired.rest)
    assert not set(fresh.seeds) & set(tired_users)
    why = campaign.explain(fresh.id, tired_users[0])
    assert why.status == "audience_rest"
    # 18 days after the last round, which was a week ago.
    assert "has an audience that rests until 2024-01-13 22:13 UTC" in why.text
    lately = [ask for ask in campaign.rounds() if clock.now - 18 * 86400.0 < ask.opened < clock.now]
    addressed = {t for ask in lately for s in ask.contacted for t in followers(campaign.graph, s)}
    for user in everybody(campaign):
        theirs = followers(campaign.graph, user)
        rests = sum(follower in addressed for follower in theirs) * 2 > len(theirs)
        assert (campaign.explain(fresh.id, user).status == "audience_rest") == rests
    assert campaign.preview("tea", users=tired_users).fatigue.again == tired.again
    with pytest.raises(InputError, match="whose followers rest"):
        campaign.ask("tea", 200, audience_rest="18d")


def test_no_rest_is_suggested_where_followers_do_not_tire():
    clock = Clock(1.7e9)
    campaign = small_campaign(clock=clock, graph=small_graph(200, 1000))
    fatigue = campaign.ask("tea", users=play_pairs(campaign, clock, tired=0.5)).fatigue
    assert fatigue.again >= fatigue.audience / 2
    assert fatigue.ratio > 0.75
    assert fatigue.rest is None


def test_with_few_rounds_nothing_is_said_of_tired_followers():
    campaign = small_campaign()
    asked = [campaign.ask("tea", 3) for _ in range(4)]
    assert [ask.fatigue is None for ask in asked] == [True, True, True, False]
    assert (asked[-1].fatigue.ratio, asked[-1].fatigue.rest) == (None, None)


def followers(graph, user):
    row = int(graph.rows([user])[0])
    return graph.ids[graph.targets[graph.out_offsets[row] : graph.out_offsets[row + 1]]].tolist()


def test_costs_change_from_now_on(tmp_path):
    clock = Clock()
    campaign = small_campaign(clock=clock, **STRATEGIES)
    before = campaign.ask("tea", 3, strategies=["letter"])
    clock.now += 5.0
    campaign.set_costs({"letter": 3.0})
    campaign.set_costs({"letter": 3.0})
    assert campaign.ask("tea", 3, strategies=["letter"]).cost == 9.0
    assert campaign.round(before.id).cost == 6.0
    assert campaign.progress().spend == 15.0
    assert campaign.strategy_costs() == {"email": 0.0, "letter": 3.0}
    campaign.export(tmp_path)
    events = pl.read_parquet(tmp_path / "events.parquet").filter(kind="costs_set")
    assert events["created"].to_list() == [1005.0]
    assert events["payload"].to_list() == ['{"strategies": {"letter": {"after": 3.0, "before": 2.0}}}']
    with pytest.raises(InputError, match=r"strategy 'letter' is known with another cost\. Change it with set_costs"):
        campaign.add_strategies(["letter"], [[0.0, 1.0]], [2.0])
    with pytest.raises(UnknownIdError, match="'fax'"):
        campaign.set_costs({"fax": 1.0})
    with pytest.raises(InputError, match="the cost of 'letter' must be"):
        campaign.set_costs({"letter": -1.0})


NAMES = [f"person-{i:03d}" for i in range(10)] + ["zoe"]
some = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)


class PeopleMachine(RuleBasedStateMachine):
    """Whatever the order of calls, nobody who opted out is in a round, and everybody else may be."""

    @initialize()
    def begin(self):
        self.campaign = small_campaign(graph=small_graph(10, 40))
        self.other = small_campaign(self.campaign.store, name="other", graph=small_graph(10, 40))
        self.out = {"here": set(), "there": set(), "everywhere": set()}

    @rule(users=some, everywhere=st.booleans(), here=st.booleans())
    def opt_out(self, users, everywhere, here):
        (self.campaign if here else self.other).opt_out(users, everywhere=everywhere)
        self.out["everywhere" if everywhere else "here" if here else "there"] |= set(users)

    @rule(users=some, everywhere=st.booleans())
    def opt_in(self, users, everywhere):
        report = self.campaign.opt_in(users, everywhere=everywhere)
        for name in self.out if everywhere else ("here",):
            self.out[name] -= set(users)
        assert report.still_out == len(set(users) & self.out["everywhere"])

    @rule(user=st.sampled_from(NAMES))
    def forget_or_add(self, user):
        known = everybody(self.campaign)
        if user in known and len(known) > 5:
            self.campaign.forget(user)
        elif user not in known:
            self.campaign.add_users([user], np.zeros((1, 3)), [user], known[:1])

    @rule(k=st.integers(1, 4), holdout=st.sampled_from([0.0, 0.5]))
    def ask(self, k, holdout):
        for campaign, place in ((self.campaign, "here"), (self.other, "there")):
            free = set(everybody(campaign)) - self.out[place] - self.out["everywhere"]
            assert {user for user in everybody(campaign) if campaign.why_not(user) is None} == free
            if len(free) < max(k, 2):
                continue
            share = holdout if k > 1 else 0.0
            asked = campaign.ask("tea", k, holdout=share)
            assert len(asked.seeds) + len(asked.held_out) == k
            assert {*asked.seeds, *asked.held_out} <= free


PeopleMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestPeople = PeopleMachine.TestCase
