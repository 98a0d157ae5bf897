"""Names that a caller chooses from, for every door that offers them."""

from __future__ import annotations

from typing import Literal

Objective = Literal["cascade", "direct"]
Algorithm = Literal["opim", "tim"]
Credit = Literal["any", "last", "shared"]
Metric = Literal["responders", "value"]
"""What a campaign decides by: how many users respond, or what their responses are worth."""
Model = Literal["ic", "lt"]
"""Independent cascades, or linear thresholds."""
