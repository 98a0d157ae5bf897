"""What the OpenAPI document says holds for whatever is sent: no answer 5xx, none that the document does not know."""

from __future__ import annotations

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.generation.stateful import run_state_machine_as_test

from service.serving import serving
from tensorucb import Graph, create_campaign
from tensorucb.policies import HighDegree

CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]
PLAIN = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}
ENDLESS = "/live"  # a stream of events, which has tests of its own


@pytest.fixture
def schema(tmp_path):
    storage = f"sqlite:///{tmp_path}/campaigns.db"
    graph = Graph.from_edges(["ann", "ann", "bob", "cid"], ["bob", "cid", "cid", "ann"])
    with create_campaign(
        "spring",
        graph=graph,
        products={"tea": [1.0, 0.0], "jam": [0.0, 1.0]},
        costs=[1.0, 2.0, 3.0],
        groups=["a", "b", "a"],
        policy=HighDegree(),
        storage=storage,
    ) as campaign:
        campaign.ask("tea", k=1)
    with serving(storage) as url:
        found = schemathesis.openapi.from_url(f"{url}/api/openapi.json")
        yield found.exclude(path_regex=ENDLESS)


def operations(schema):
    return [found.ok() for found in schema.get_all_operations()]


def fuzz(operation, mode: GenerationMode, examples: int) -> int:
    """Send an operation's examples, most of them to the campaign and the round that are there; how many were sent."""
    sent = 0

    @settings(max_examples=examples, derandomize=True, phases=[Phase.explicit, Phase.generate], **PLAIN)
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case):
        nonlocal sent
        known = {"name": "spring", "round": "1"} if operation.method != "delete" else {}
        if mode is GenerationMode.POSITIVE and isinstance(case.path_parameters, dict):
            case.path_parameters.update({key: known[key] for key in known if key in case.path_parameters})
        case.call_and_validate(checks=CHECKS, timeout=60)
        sent += 1

    # An operation without parameters and without a body cannot be called in a wrong way.
    with suppress(Unsatisfiable):
        send()
    return sent


def test_every_operation_answers_as_the_document_says(schema):
    written = sum(len(methods) for path, methods in schema.raw_schema["paths"].items() if not path.endswith(ENDLESS))
    found = operations(schema)
    assert len(found) == written > 30
    for operation in found:
        assert fuzz(operation, GenerationMode.POSITIVE, 1) == 1, operation.label


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.name.lower())
def test_every_operation_under_many_requests(schema, mode):
    for operation in operations(schema):
        sent = fuzz(operation, mode, 60)
        plain = mode is GenerationMode.NEGATIVE and not list(operation.iter_parameters()) and not operation.body
        assert sent or plain, operation.label


@pytest.mark.slow
def test_one_call_after_the_other(schema):
    called = set()

    class Calls(schema.as_state_machine()):
        def validate_response(self, response, case, **given):
            called.add(case.operation.label)
            case.validate_response(response, checks=CHECKS)

    run_state_machine_as_test(
        Calls, settings=settings(max_examples=40, stateful_step_count=20, derandomize=True, **PLAIN)
    )
    assert len(called) > 20, called
