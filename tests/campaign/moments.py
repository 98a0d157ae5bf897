"""Moments of a campaign's work at which a test lets somebody else act."""

from __future__ import annotations

# private: others act between a choice, a model or a deletion and its writing, a moment that no caller can hit
from tensorucb.campaign import _ask, _create, _forget, _handle, _model

ask = _ask
create = _create
forget = _forget
model = _model

Handle = _handle.Handle
