"""The recommender, once; what differs between jagged and padded is the layout of its rows.

Items → embeddings → causal self-attention blocks → pooling with learned queries → user vector.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jfa


class Layout(Protocol):
    """How the rows of a batch lie in memory and how they attend."""

    def arrange(self, rows: Tensor) -> Tensor:
        """Rows back to back [total, …] to this layout."""

    def flatten(self, rows: Tensor) -> Tensor:
        """This layout to rows back to back [total, …]."""

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal attention of every sequence with itself."""

    def pool(self, queries: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """``queries`` [count, H, D], the same for every sequence → [batch, count, H, D]."""


class Jagged:
    """Rows back to back, [total, H, D]: no padding anywhere."""

    def __init__(self, offsets: Tensor) -> None:
        self.offsets = offsets
        self.plan: jfa.Plan | None = None

    def arrange(self, rows: Tensor) -> Tensor:
        return rows

    def flatten(self, rows: Tensor) -> Tensor:
        return rows

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.plan is None:  # one work list for all layers and the backward pass
            self.plan = jfa.plan(q, k, v, self.offsets, mask=jfa.causal())
        return jfa.jagged_attention(q, k, v, self.offsets, mask=jfa.causal(), plan=self.plan)

    def pool(self, queries: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return jfa.jagged_attention(queries, k, v, kv_offsets=self.offsets)


class Padded:
    """[batch, longest, H, D] and scaled_dot_product_attention with a mask, the usual way."""

    def __init__(self, offsets: Tensor) -> None:
        lengths = offsets.diff()
        place = torch.arange(int(lengths.max()))
        self.valid = place < lengths[:, None]
        causal = place <= place[:, None]
        self.visible = (causal & self.valid[:, None, :])[:, None]
        self.poolable = self.valid[:, None, None, :]

    def arrange(self, rows: Tensor) -> Tensor:
        padded = rows.new_zeros(*self.valid.shape, *rows.shape[1:])
        padded[self.valid] = rows
        return padded

    def flatten(self, rows: Tensor) -> Tensor:
        return rows[self.valid]

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads_first = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(*heads_first, attn_mask=self.visible)
        return out.transpose(1, 2)

    def pool(self, queries: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = queries.transpose(0, 1).expand(len(k), -1, -1, -1)
        keys_first = (t.transpose(1, 2) for t in (k, v))
        out = F.scaled_dot_product_attention(q, *keys_first, attn_mask=self.poolable)
        return out.transpose(1, 2)


class Block(nn.Module):
    """Self-attention and a feed-forward layer, both with residuals."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        fused = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = fused.unbind(-3)  # views of one buffer
        x = x + self.output(layout.self_attention(q, k, v).flatten(-2))
        out: Tensor = x + self.feed(self.norm_feed(x))
        return out


class SequentialRecommender(nn.Module):
    def __init__(
        self, items: int, longest: int, width: int = 64, heads: int = 2, layers: int = 2
    ) -> None:
        super().__init__()
        count = 4
        self.items = nn.Embedding(items, width)
        self.recency = nn.Embedding(longest, width)
        nn.init.normal_(self.items.weight, std=0.02)
        nn.init.normal_(self.recency.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Parameter(torch.randn(count, heads, width // heads))
        self.keys_values = nn.Linear(width, 2 * width)
        self.user = nn.Linear(count * width, width)
        self.heads = heads

    def forward(self, items: Tensor, recency: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Scores of all items as the next one: after every row [total, items], after every
        sequence [batch, items].
        """
        x = layout.arrange(self.items(items) + self.recency(recency))
        for block in self.blocks:
            x = block(x, layout)
        x = self.norm(x)
        fused = self.keys_values(x).unflatten(-1, (2, self.heads, -1))
        pooled = layout.pool(self.queries, *fused.unbind(-3))
        users = self.user(pooled.flatten(1))
        catalogue = self.items.weight.T
        return layout.flatten(x) @ catalogue, users @ catalogue
