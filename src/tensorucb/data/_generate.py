"""Generated networks as data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb.checks import check_choice, check_number
from tensorucb.data._dataset import Dataset
from tensorucb.data._log import ActionLog
from tensorucb.data._report import Report
from tensorucb.rng import RngLike, as_generator

if TYPE_CHECKING:
    from tensorucb.data.sandbox import Sandbox

GENERATORS: dict[str, str] = {
    "digg_like": "the size of the paper's Digg: 2,843 users, 75,895 edges, 1,000 stories",
    "flixster_like": "the size of the paper's Flixster: 29,384 users, 371,722 edges, 100 movies",
    "sandbox": "small, for a first look: 500 users, 5,000 edges, 50 products",
}
# A user of a generated log answers exactly one step after the neighbour who convinced them.
_WINDOW = 1.0


def _sandbox(name: str, scale: float, rng: RngLike) -> Sandbox:
    from tensorucb.data import sandbox

    if name == "digg_like":
        return sandbox.digg_like(scale, rng)
    if name == "flixster_like":
        return sandbox.flixster_like(scale, rng)
    sizes = (max(10, round(500 * scale)), max(20, round(5000 * scale)), max(2, round(50 * scale)))
    return sandbox.make_sandbox(*sizes, rng=rng)


def generate_dataset(name: str, *, scale: float = 1.0, rng: RngLike = 0) -> Dataset:
    """A generated network with a generated action log.

    Parameters
    ----------
    name
        ``digg_like``, ``flixster_like`` or ``sandbox``.
    scale
        Factor on the numbers of users, edges and products.
    rng
        Seed or generator of the network and of its log.

    Returns
    -------
    Dataset
        Times are steps of the cascades, and the window is one step. The truth behind the log is not part of it.
    """
    check_choice("name", name, GENERATORS)
    scale = check_number("scale", scale, low=1e-6, high=1000.0)
    generator = as_generator(rng)
    made = _sandbox(name, scale, generator)
    log = ActionLog.from_arrays(*made.action_log(None, generator), range(len(made.names)))
    report = Report(steps=(f"generated: {name}, scale {scale:g}",))
    return Dataset(made.graph, log, name, _WINDOW, report)
