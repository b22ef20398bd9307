"""The loops we measure ourselves against: plain PyTorch, as good as a textbook writes them. No DataLoader, no copied data.

One model; for each client its weights are loaded, a fresh Adam made, the client's samples shuffled and cut into batches.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TextbookCNN(nn.Module):
    """The paper's network as it is written down: convolution, relu, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def train_round(model: nn.Module, start: dict[str, Tensor], x: Tensor, y: Tensor, bounds: list[int], clients: range) -> list:
    """One epoch of each client from the same start; the trained weights."""
    trained = []
    for i in clients:
        model.load_state_dict(start)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        own_x, own_y = x[bounds[i] : bounds[i + 1]], y[bounds[i] : bounds[i + 1]]
        order = torch.randperm(len(own_y))
        for batch in order.split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(own_x[batch]), own_y[batch]).backward()
            optimizer.step()
        trained.append({name: value.clone() for name, value in model.state_dict().items()})
    return trained


@torch.no_grad()
def evaluate(model: nn.Module, weights: list[dict[str, Tensor]], x: Tensor, y: Tensor, batch: int = 250) -> list[float]:
    """Accuracy of each model; the batch size is the fastest of 64 … 1,000 on the machine this was written on."""
    model.eval()
    accuracies = []
    for state in weights:
        model.load_state_dict(state)
        right = sum(int((model(xb).argmax(1) == yb).sum()) for xb, yb in zip(x.split(batch), y.split(batch), strict=True))
        accuracies.append(right / len(y))
    model.train()
    return accuracies


def work(rank: int, pipe, x: Tensor, y: Tensor, bounds: list[int], results: dict[str, Tensor]) -> None:  # type: ignore[no-untyped-def]
    """A worker process: every second client, on one thread; the trained weights go into shared memory."""
    torch.set_num_threads(1)
    model = TextbookCNN()
    clients = range(rank, len(bounds) - 1, 2)
    while True:
        start = pipe.recv()
        if start is None:
            return
        for client, state in zip(clients, train_round(model, start, x, y, bounds, clients), strict=True):
            for name, value in state.items():
                results[name][client] = value
        pipe.send(True)


class TwoProcesses:
    """Half of the clients in each of two processes, which share the data and the results."""

    def __init__(self, x: Tensor, y: Tensor, bounds: list[int]) -> None:
        context = torch.multiprocessing.get_context("spawn")
        shapes = {name: value.shape for name, value in TextbookCNN().state_dict().items()}
        self.results = {name: torch.zeros(len(bounds) - 1, *shape).share_memory_() for name, shape in shapes.items()}
        self.pipes, self.team = [], []
        for rank in range(2):
            ours, theirs = context.Pipe()
            shared = (x.share_memory_(), y.share_memory_(), bounds, self.results)
            process = context.Process(target=work, args=(rank, theirs, *shared), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.team.append(process)

    def train_round(self, start: dict[str, Tensor]) -> dict[str, Tensor]:
        """One round; all trained weights, stacked."""
        for pipe in self.pipes:
            pipe.send(start)
        for pipe in self.pipes:
            pipe.recv()
        return self.results

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.team, strict=True):
            pipe.send(None)
            process.join()


class Streaming:
    """Nodes that take one step on a few samples a round, each with an optimizer of its own that remembers."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, bounds: list[int], count: int, lr: float) -> None:
        self.model, self.x, self.y, self.bounds, self.count = model, x, y, bounds, count
        self.start = {name: value.clone() for name, value in model.state_dict().items()}
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9) for _ in bounds[1:]]

    def train_round(self, index: int) -> list[dict[str, Tensor]]:
        """What every node's model moved by."""
        moved = []
        for begin, optimizer in zip(self.bounds, self.optimizers, strict=False):
            self.model.load_state_dict(self.start)
            batch = slice(begin + self.count * index, begin + self.count * (index + 1))
            optimizer.zero_grad()
            F.cross_entropy(self.model(self.x[batch]), self.y[batch]).backward()
            optimizer.step()
            moved.append({name: value - self.start[name] for name, value in self.model.state_dict().items()})
        return moved
