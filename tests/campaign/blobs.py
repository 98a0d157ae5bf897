"""What a store keeps of a campaign as blobs, opened and changed as damage, or an older release, would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

# private: doors refuse features that no model can learn, and seal what they write; only a store holds anything else
from tensorucb.campaign import _catalogue
from tensorucb.files import pack_state, unpack_state

SNAPSHOTS = "snapshot-"

seal = pack_state
unseal = unpack_state


def learned_rounds(name: str) -> int:
    """How many rounds the model of a snapshot had learned, by the blob's name."""
    return int(name.rpartition("-")[2])


def close_with_features(campaign, ask, size: float) -> None:
    """Close a round, as one for a product with a feature of this size."""
    with campaign._handle.write() as view:
        record = view.round(ask)
        context = _catalogue.Context(None, None, (np.array([size, 0.0]),))
        view.finish(replace(record, context=context), "closed", record.opened)
