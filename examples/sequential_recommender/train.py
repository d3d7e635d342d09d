"""Trains the recommender twice from one initialisation, jagged and padded, and compares the two.

    python examples/sequential_recommender/train.py            # about three minutes on two cores
    python examples/sequential_recommender/train.py --quick    # a few seconds

The two take their steps in turn, so that both are timed on the same machine.

Prints the loss of both, the largest difference, time per step, and HR@10 and NDCG@10 of the
held-out last item of every user against the whole catalogue; writes one plot with both curves.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from data import Batch, held_out_batches, read_histories, training_batches
from model import Jagged, Layout, Padded, SequentialRecommender
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Run:
    """What one training gave."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    hit_rate: float = 0.0
    gain: float = 0.0


def loss_of(model: SequentialRecommender, batch: Batch, layout: Layout) -> Tensor:
    """Cross-entropy over all items: of the pooled user vector, and of every row's next item."""
    every_row, pooled = model(batch.items, batch.recency, layout)
    return F.cross_entropy(pooled, batch.targets) + F.cross_entropy(every_row, batch.next_items)


@torch.no_grad()
def ranking(
    model: SequentialRecommender,
    kind: type[Jagged] | type[Padded],
    batches: list[Batch],
    histories: list[Tensor],
) -> tuple[float, float]:
    """HR@10 and NDCG@10 of the pooled scores; items that a user has seen are not candidates."""
    ranks: list[int] = []
    for batch in batches:
        _, scores = model(batch.items, batch.recency, kind(batch.offsets))
        for row, target in zip(scores, batch.targets.tolist(), strict=True):
            seen = histories[len(ranks)][:-1]
            wanted = row[target].item()
            row[seen] = -math.inf
            ranks.append(int((row > wanted).sum()))
    hits = [rank for rank in ranks if rank < 10]
    return len(hits) / len(ranks), sum(1 / math.log2(rank + 2) for rank in hits) / len(ranks)


class Training:
    """A model in one layout, its optimizer and what its steps gave."""

    def __init__(self, kind: type[Jagged] | type[Padded], items: int, longest: int) -> None:
        self.kind = kind
        self.model = SequentialRecommender(items, longest)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.run = Run()

    def step(self, batch: Batch) -> None:
        start = time.perf_counter()
        loss = loss_of(self.model, batch, self.kind(batch.offsets))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.run.seconds.append(time.perf_counter() - start)
        self.run.losses.append(loss.item())


def train(trainings: list[Training], batches: list[Batch]) -> None:
    for step, batch in enumerate(batches):
        for training in trainings:
            training.step(batch)
        if sys.stderr.isatty():
            print(f"\rstep {step + 1}/{len(batches)}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def plot(runs: dict[str, Run], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "jfa"  # the same file in every run
    from matplotlib import pyplot

    figure, (losses, difference) = pyplot.subplots(
        2, 1, sharex=True, figsize=(7, 5.5), height_ratios=[3, 1], layout="constrained"
    )
    jagged, padded = runs["jagged"].losses, runs["padded"].losses
    losses.plot(padded, color="0.7", linewidth=4, label="padded scaled_dot_product_attention")
    losses.plot(jagged, color="C0", linewidth=1, label="jfa.jagged_attention")
    losses.set_ylabel("training loss")
    losses.legend()
    gaps = [max(abs(a - b), 1e-8) for a, b in zip(jagged, padded, strict=True)]
    difference.semilogy(gaps, color="C3", linewidth=0.8)
    difference.set_ylabel("|difference|")
    difference.set_xlabel("step")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def report(runs: dict[str, Run], batches: list[Batch]) -> float:
    """Prints the comparison and returns the largest difference of the losses."""
    lengths = torch.cat([batch.offsets.diff() for batch in batches])
    padded_rows = sum(int(b.offsets.diff().max()) * len(b.targets) for b in batches)
    print(
        f"history length mean {lengths.double().mean():.0f}, longest {lengths.max()}; padding is "
        f"{1 - int(lengths.sum()) / padded_rows:.0%} of the padded rows"
    )
    print(f"{'':8}{'first loss':>12}{'last loss':>12}{'ms a step':>12}{'HR@10':>9}{'NDCG@10':>9}")
    for name, run in runs.items():
        milliseconds = statistics.median(run.seconds) * 1e3
        tail = statistics.mean(run.losses[-20:])
        print(
            f"{name:8}{run.losses[0]:12.5f}{tail:12.5f}{milliseconds:12.1f}"
            f"{run.hit_rate:9.4f}{run.gain:9.4f}"
        )
    pairs = zip(runs["jagged"].losses, runs["padded"].losses, strict=True)
    largest = max(abs(a - b) for a, b in pairs)
    steps = zip(runs["jagged"].seconds, runs["padded"].seconds, strict=True)
    ratio = statistics.median(padded / jagged for jagged, padded in steps)
    print(f"a padded step takes {ratio:.2f} times a jagged one (median over the steps)")
    print(f"largest difference of the two loss curves: {largest:.2e}")
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=Path, default=ROOT / ".data" / "ml-100k.inter")
    parser.add_argument("--plot", type=Path, default=ROOT / "build" / "sequential_recommender.svg")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--longest", type=int, default=200, help="items of a history that count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="20 small steps, to see it run")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.batch = 20, 16
    if not options.events.exists():
        parser.error(
            f"{options.events} is missing; tools/fetch_movielens.py (or make demo) puts it there"
        )

    histories, items = read_histories(options.events)
    batches = training_batches(
        histories, options.steps, options.batch, options.longest, options.seed
    )
    held_out = held_out_batches(histories, options.batch, options.longest)
    kinds: dict[str, type[Jagged] | type[Padded]] = {"jagged": Jagged, "padded": Padded}
    trainings = {}
    for name, kind in kinds.items():
        torch.manual_seed(options.seed)  # the same first model
        trainings[name] = Training(kind, items, options.longest)
    train(list(trainings.values()), batches)
    runs = {name: training.run for name, training in trainings.items()}
    for training in trainings.values():
        run = training.run
        run.hit_rate, run.gain = ranking(training.model, training.kind, held_out, histories)
    print(f"{len(histories)} users, {items} items, {torch.get_num_threads()} threads")
    report(runs, batches)
    plot(runs, options.plot)
    print(f"plot: {options.plot}")


if __name__ == "__main__":
    main()
