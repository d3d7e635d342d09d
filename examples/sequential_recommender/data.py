"""An interaction log as user histories, and batches of random pieces of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor


@dataclass
class Batch:
    """Histories back to back, each with the item that follows it."""

    items: Tensor  # [total] item numbers
    recency: Tensor  # [total] 0 for the newest item of a history, then 1, 2, …
    offsets: Tensor  # [batch + 1]
    next_items: Tensor  # [total] the item after each row
    targets: Tensor  # [batch] the item after each history


def read_histories(path: Path) -> tuple[list[Tensor], int]:
    """The items of every user in order of time, and the number of items.

    ``path`` is a table with tabs and the columns user_id, item_id and timestamp; a type behind a
    colon (``user_id:token``) is ignored.
    """
    events: dict[str, list[tuple[float, int]]] = {}
    numbers: dict[str, int] = {}
    with path.open(newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        columns = [name.partition(":")[0] for name in next(rows)]
        user, item, time = (columns.index(name) for name in ("user_id", "item_id", "timestamp"))
        for row in rows:
            number = numbers.setdefault(row[item], len(numbers))
            events.setdefault(row[user], []).append((float(row[time]), number))
    # Events of one second keep the order of the file: sort by time alone.
    ordered = (sorted(own, key=lambda event: event[0]) for own in events.values())
    histories = [torch.tensor([number for _, number in own]) for own in ordered]
    return [history for history in histories if len(history) >= 4], len(numbers)


def make_batch(histories: list[Tensor], ends: list[int], longest: int) -> Batch:
    """History b is the ``longest`` items before position ends[b]; the item there is its target."""
    parts = [h[max(0, end - longest) : end + 1] for h, end in zip(histories, ends, strict=True)]
    lengths = torch.tensor([len(part) - 1 for part in parts])
    return Batch(
        items=torch.cat([part[:-1] for part in parts]),
        recency=torch.cat([torch.arange(len(part) - 2, -1, -1) for part in parts]),
        offsets=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        next_items=torch.cat([part[1:] for part in parts]),
        targets=torch.stack([part[-1] for part in parts]),
    )


def training_batches(
    histories: list[Tensor], steps: int, size: int, longest: int, seed: int
) -> list[Batch]:
    """Random users, each cut at a random place; the last item of a user is never seen."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(steps):
        users = torch.randint(len(histories), (size,), generator=generator).tolist()
        chosen = [histories[user] for user in users]
        ends = [int(torch.randint(1, len(h) - 1, (), generator=generator)) for h in chosen]
        batches.append(make_batch(chosen, ends, longest))
    return batches


def held_out_batches(histories: list[Tensor], size: int, longest: int) -> list[Batch]:
    """Every user once, the last item as target."""
    return [
        make_batch(part, [len(history) - 1 for history in part], longest)
        for part in (histories[i : i + size] for i in range(0, len(histories), size))
    ]
