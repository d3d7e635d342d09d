"""Jagged Flash Attention: attention over sequences of different lengths without padding.

``jagged_attention`` is the call; ``causal`` … ``intervals`` make masks, ``dense_bias`` …
``time_bias`` make biases, ``plan`` shares the work list between layers. ``reference_attention`` is
the float64 definition that every engine is compared with; ``check`` compares for a one-line
problem.
"""

from jfa._core import (
    DeviceError,
    Error,
    InvalidArgument,
    InvalidType,
    Unsupported,
    __version__,
)
from jfa._operators import offsets_from_lengths
from jfa._plan import Plan
from jfa.attention import jagged_attention, plan, reference_attention
from jfa.biases import Bias, alibi_bias, dense_bias, position_bias, time_bias
from jfa.masks import (
    Mask,
    blocks,
    causal,
    full,
    hstu,
    intervals,
    prefix_local,
    window,
)
from jfa.scales import OutScale, per_sequence, per_token

__all__ = [
    "Bias",
    "DeviceError",
    "Error",
    "InvalidArgument",
    "InvalidType",
    "Mask",
    "OutScale",
    "Plan",
    "Unsupported",
    "__version__",
    "alibi_bias",
    "blocks",
    "causal",
    "dense_bias",
    "full",
    "hstu",
    "intervals",
    "jagged_attention",
    "offsets_from_lengths",
    "per_sequence",
    "per_token",
    "plan",
    "position_bias",
    "prefix_local",
    "reference_attention",
    "time_bias",
    "window",
]
