"""Does it pay to be honest? The three audits: what cheats gain, how much clients would bring, how stable contributions are.

Each is a plan (which runs), a reading (what the stored runs say, as a data frame) and a picture.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, t

from fedincent.campaigns.plan import Wish, last_of_each
from fedincent.config.compose import composed
from fedincent.config.groups import read_group
from fedincent.errors import ConfigError
from fedincent.evaluation.formulas import REWARDS
from fedincent.results.render import NAMES
from fedincent.results.table import PaperTable, at_seed, load_table
from fedincent.store.index import Index
from fedincent.store.result import Result
from fedincent.studies import game

PAYS, HONEST, OPEN = "pays", "does not pay", "undecided"
Drawing = Callable[[Any], None]


def split_words(words: Sequence[str], *groups: str) -> tuple[dict[str, list[str]], list[str]]:
    """What a command line names of some groups (mechanism=A,B), and its other overrides."""
    named: dict[str, list[str]] = {group: [] for group in groups}
    rest = []
    for word in words:
        name, sign, value = word.partition("=")
        if name in named and sign:
            named[name] = [part for part in value.split(",") if part]
        else:
            rest.append(word)
    return named, rest


def chosen(known: Mapping[str, list[str]], group: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The overrides of what is asked for of a group; what the audit does not list is taken as it is."""
    return {name: known.get(name, [f"{group}={name}"]) for name in names} if names else dict(known)


# --- 1: does cheating pay? ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cheating:
    """Behaviours against mechanisms, as the table audit-1 states them."""

    table: PaperTable
    seeds: int

    @staticmethod
    def of(words: Sequence[str], seeds: int | None) -> Cheating:
        """The audit for the mechanisms and the data set that a command line names."""
        named, rest = split_words(words, "mechanism", "behaviour", "dataset")
        table = load_table("audit-1", rest)
        table.columns = chosen(table.columns, "mechanism", named["mechanism"])
        table.conditions = chosen(table.conditions, "behaviour", named["behaviour"])
        rounds = [word.partition("=")[2] for word in rest if word.startswith("rounds=")]
        if rounds and rounds[-1].isdigit() and "stops" in table.conditions:  # half of the rounds, however many
            table.conditions["stops"] = ["behaviour=stops", f"behaviour.after={int(rounds[-1]) // 2}"]
        label = ",".join(named["dataset"]) or "digits"
        table.datasets.setdefault(label, [f"dataset={label}"])
        table.rows = [(label, behaviour) for behaviour in table.conditions]
        return Cheating(table, seeds or table.seeds)

    def wishes(self) -> list[Wish]:
        """The runs, each with the honest one that it builds on."""
        return self.table.wishes(self.seeds, {})

    def frame(self, index: Index, worth: float) -> pd.DataFrame:
        """A line for each behaviour and mechanism; worth: of all of a client's work, in points."""
        lines = []
        for (_, behaviour, mechanism), config in self.table.configs().items():
            found = [index.find(at_seed(config, seed)) for seed in range(self.seeds)]
            known = [run.summary for run in found if run is not None and run.summary.get("cheat_gain") is not None]
            gains, others, saving = (
                np.array([100 * float(summary[name]) for summary in known])
                for name in ("cheat_gain", "cheat_others", "cheat_saving")
            )
            lines.append(
                {
                    "behaviour": behaviour,
                    "mechanism": mechanism,
                    "gain": gains.mean() if len(gains) else math.nan,
                    "error": standard_error(gains),
                    "others": others.mean() if len(others) else math.nan,
                    "saving": saving.mean() if len(saving) else math.nan,
                    "pays_from": price_of_work(gains, saving),
                    "seeds": len(gains),
                    "verdict": verdict(gains + worth * saving / 100),
                }
            )
        return pd.DataFrame(lines)


def standard_error(values: np.ndarray) -> float:
    """Of a mean; nan with fewer than two values."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def price_of_work(gains: np.ndarray, saving: np.ndarray) -> float:
    """What all of one's work must be worth, in points, for the saving to outweigh the loss; inf where nothing is saved."""
    if not len(gains):
        return math.nan
    if gains.mean() > 0 or (gains.mean() == 0 and saving.mean() > 0):
        return 0.0
    return float(-100 * gains.mean() / saving.mean()) if saving.mean() > 0 else math.inf


def verdict(net: np.ndarray, level: float = 0.95) -> str:
    """Whether a net gain is above 0 or not, by the t interval over the seeds; exact zeros do not pay."""
    if len(net) and not net.any():
        return HONEST
    if len(net) < 2:
        return OPEN
    reach = float(t.ppf(0.5 + level / 2, len(net) - 1)) * standard_error(net)
    if net.mean() - reach > 0:
        return PAYS
    return HONEST if net.mean() + reach <= 0 else OPEN


def cheating_grid(frame: pd.DataFrame) -> pd.DataFrame:
    """Behaviours × mechanisms: gain ± error, and the verdict."""
    marks = {PAYS: "PAYS", HONEST: "no", OPEN: "?"}

    def words(row: pd.Series) -> str:
        if not row.seeds:
            return "–"
        error = "" if math.isnan(row.error) else f" ±{row.error:.1f}"
        return f"{row.gain:+.1f}{error} {marks[row.verdict]}"

    texts = frame.assign(text=[words(row) for _, row in frame.iterrows()])
    grid = texts.pivot(index="behaviour", columns="mechanism", values="text")
    return in_order(grid, frame).rename(columns=lambda name: NAMES.get(name, name))


def in_order(grid: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """A pivoted frame in the order of its lines."""
    return grid.loc[frame.behaviour.drop_duplicates(), frame.mechanism.drop_duplicates()]


def cheating_picture(frame: pd.DataFrame, worth: float) -> Drawing:
    """A heat map: red where cheating pays, blue where it costs; framed where the seeds decide."""

    def draw(picture: Any) -> None:
        axis = picture.subplots()
        net = in_order(
            (frame.assign(net=frame.gain + worth * frame.saving / 100)).pivot(
                index="behaviour", columns="mechanism", values="net"
            ),
            frame,
        )
        words = in_order(frame.pivot(index="behaviour", columns="mechanism", values="verdict"), frame)
        image = axis.imshow(net.to_numpy(), cmap="RdBu_r", vmin=-10, vmax=10, aspect="auto")
        axis.set_xticks(range(net.shape[1]), [NAMES.get(name, name) for name in net.columns], fontsize=8)
        axis.set_yticks(range(net.shape[0]), net.index, fontsize=8)
        for row, column in itertools.product(range(net.shape[0]), range(net.shape[1])):
            value, word = net.iat[row, column], words.iat[row, column]
            if np.isfinite(value):
                mark = {PAYS: "pays", HONEST: "no", OPEN: "?"}[word]
                dark = abs(value) > 6
                label = f"{value:+.1f}\n{mark}"
                axis.text(column, row, label, ha="center", va="center", fontsize=7, color="white" if dark else "black")
        bar = picture.colorbar(image, ax=axis, extend="both")
        bar.set_label(f"points gained, with all work worth {worth:g}", fontsize=8)

    return draw


# --- 2: how much would clients bring? ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EffortAudit:
    """An effort game as conf/game states it."""

    name: str
    title: str
    overrides: list[str]
    efforts: list[float]
    costs: list[float]
    types: list[float]
    seeds: int
    columns: dict[str, list[str]]
    note: str = ""
    extra: list[str] = field(default_factory=list)

    @staticmethod
    def of(name: str, words: Sequence[str], seeds: int | None) -> EffortAudit:
        """The game for the mechanisms and the data set that a command line names."""
        named, extra = split_words(words, "mechanism")
        content = read_group("game", name)
        content["columns"] = chosen(content["columns"], "mechanism", named["mechanism"])
        content["seeds"] = seeds or content["seeds"]
        return EffortAudit(name=name, extra=extra, **content)

    def line(self, mechanism: str, common: Sequence[int], kind: int, own: int, seed: int) -> list[str]:
        """The run of one profile: what each type brings, and what the deviator of one type does (places in the grid)."""
        if own == common[kind]:  # nobody deviates: one run for all types
            kind, own = 0, common[0]
        shares = ",".join(str(self.efforts[place]) for place in common)
        behaviour = [f"behaviour.common=[{shares}]", f"behaviour.own={self.efforts[own]}"]
        who = f"behaviour.clients=[{self.client(kind, seed)}]"
        line = [*self.overrides, *self.columns[mechanism], *self.extra, "behaviour=effort", *behaviour, who, f"seed={seed}"]
        return last_of_each(line)

    def client(self, kind: int, seed: int) -> int:
        """The deviator of a type: another one in each seed."""
        kinds = len(self.types)
        return (seed % 3) * kinds + kind

    def profiles(self) -> list[tuple[tuple[int, ...], int, int]]:
        """All profiles with one deviator: what is common, its type, its own."""
        grid, kinds = range(len(self.efforts)), range(len(self.types))
        common = itertools.product(grid, repeat=len(self.types))
        return [(profile, kind, own) for profile in common for kind in kinds for own in grid]

    def wishes(self) -> list[Wish]:
        """The runs of all profiles, seed by seed."""
        lines = {
            tuple(self.line(mechanism, *profile, seed)): None
            for seed in range(self.seeds)
            for mechanism in self.columns
            for profile in self.profiles()
        }
        return [Wish(list(line), composed(line)) for line in lines]

    def reward(self, index: Index, mechanism: str) -> np.ndarray:
        """What deviators are given (S×E×…×E×K×E), without the seeds that are not all done."""
        size, kinds = len(self.efforts), len(self.types)
        reward = np.full((self.seeds, *([size] * kinds), kinds, size), np.nan)
        for seed in range(self.seeds):
            for common, kind, own in self.profiles():
                found = index.find(composed(tuple(self.line(mechanism, common, kind, own, seed))))
                if found is not None:
                    reward[(seed, *common, kind, own)] = reward_of(found, self.client(kind, seed))
        return reward[~np.isnan(reward.reshape(self.seeds, -1)).any(1)]

    def rewards(self, index: Index) -> dict[str, np.ndarray]:
        """The same of each mechanism that is done at one seed at least."""
        found = {mechanism: self.reward(index, mechanism) for mechanism in self.columns}
        return {mechanism: reward for mechanism, reward in found.items() if len(reward)}

    def frame(self, rewards: Mapping[str, np.ndarray], draws: int = 400) -> pd.DataFrame:
        """A line for each mechanism and cost: equilibrium, optimum, welfare, with 90 % of what resampled seeds give."""
        lines = []
        efforts, factors = np.array(self.efforts), np.array(self.types)
        for mechanism, reward in rewards.items():
            for cost in self.costs:
                payoff = game.payoffs(reward.mean(0), efforts, cost, factors)
                outcome = game.solve(payoff)
                gone = game.path(payoff, (len(efforts) - 1,) * len(factors))
                again = game.resampled(reward, efforts, cost, factors, draws, np.random.default_rng(0))
                spread = np.array([efforts[list(other.equilibrium)].mean() for other in again])
                low, high = np.quantile(spread, [0.05, 0.95])
                lines.append(
                    {
                        "mechanism": mechanism,
                        "cost": cost,
                        "effort": "/".join(f"{efforts[place]:g}" for place in outcome.equilibrium),
                        "path": " → ".join("/".join(f"{efforts[place]:g}" for place in profile) for profile in gone),
                        "mean_effort": efforts[list(outcome.equilibrium)].mean(),
                        "effort_low": low,
                        "effort_high": high,
                        "regret": 100 * outcome.regret,
                        "optimum": "/".join(f"{efforts[place]:g}" for place in outcome.optimum),
                        "welfare": 100 * outcome.welfare,
                        "best_welfare": 100 * outcome.best_welfare,
                        "price_of_free_riding": 100 * outcome.price,
                        "seeds": len(reward),
                    }
                )
        return pd.DataFrame(lines)

    def picture(self, rewards: Mapping[str, np.ndarray], cost: float) -> Drawing:
        """Payoff against one's own effort, a line for each effort of the others, with the best-response path."""

        def draw(picture: Any) -> None:
            from matplotlib import colormaps

            axes = picture.subplots(1, len(rewards), sharey=True, squeeze=False)[0]
            efforts = np.array(self.efforts)
            for axis, (mechanism, reward) in zip(axes, rewards.items(), strict=True):
                payoff = 100 * game.payoffs(reward.mean(0), efforts, cost, np.array(self.types))
                for common, effort in enumerate(efforts):
                    shade = colormaps["viridis"](0.9 * common / max(1, len(efforts) - 1))
                    axis.plot(efforts, payoff[common, 0], color=shade, label=f"others {effort:g}")
                gone = [place for (place,) in game.path(payoff, (len(efforts) - 1,))]
                points = [payoff[place, 0, place] for place in gone]
                axis.plot(efforts[gone], points, "o--", color="crimson", markersize=5, linewidth=1, label="path")
                axis.plot(efforts[gone[-1:]], points[-1:], "s", color="crimson", markersize=9)
                axis.set_title(NAMES.get(mechanism, mechanism), fontsize=10)
                axis.set_xlabel("own effort")
                axis.grid(True, color="0.9")
                axis.spines[["top", "right"]].set_visible(False)
            axes[0].set_ylabel(f"payoff in points, cost {cost:g}")
            axes[-1].legend(fontsize=6.5, framealpha=0.8)

        return draw


def reward_of(run: Result, client: int) -> float:
    """What a client is given in a run: accuracy, or minus its error."""
    clients = run.clients
    name = next((name for name in REWARDS if name in clients), None)
    if name is None:
        raise ConfigError("audit", run.name, f"has none of {', '.join(REWARDS)}")
    return REWARDS[name] * float(clients.set_index("client")[name][client])


# --- 3: how stable are contributions? ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stability:
    """Contribution measures on one deal, trained again and again, as conf/stability states it."""

    title: str
    overrides: list[str]
    seeds: int
    measures: dict[str, list[str]]
    against: list[str]
    attacks: dict[str, list[str]]
    attack_overrides: list[str]
    extra: list[str] = field(default_factory=list)

    @staticmethod
    def of(words: Sequence[str], seeds: int | None) -> Stability:
        """The audit with a command line's overrides."""
        content = read_group("stability", "contributions")
        content["seeds"] = seeds or content["seeds"]
        return Stability(extra=list(words), **content)

    def line(self, measure: str, attack: str, seed: int) -> list[str]:
        """The run of a measure, under an attack or (empty) honest."""
        attacked = [*self.attacks[attack], *self.attack_overrides] if attack else []
        return last_of_each([*self.overrides, *self.measures[measure], *attacked, *self.extra, f"seed={seed}"])

    def wishes(self) -> list[Wish]:
        """All runs: honest, then attacked."""
        return [
            Wish(line, composed(tuple(line)))
            for attack in ("", *self.attacks)
            for seed in range(self.seeds)
            for measure in self.measures
            for line in [self.line(measure, attack, seed)]
        ]

    def frame(self, index: Index) -> pd.DataFrame:
        """A line for each measure: τ with itself over seeds and with others, and the most that an attack moves."""

        def found(measure: str, attack: str, seed: int) -> Result | None:
            return index.find(composed(tuple(self.line(measure, attack, seed))))

        values: dict[str, dict[int, np.ndarray]] = {}
        for measure in self.measures:
            runs = {seed: found(measure, "", seed) for seed in range(self.seeds)}
            values[measure] = {seed: run.clients.contribution.to_numpy() for seed, run in runs.items() if run is not None}
        lines = []
        for measure, by_seed in values.items():
            pairs = itertools.combinations(by_seed.values(), 2)
            line: dict[str, Any] = {"measure": measure, "with itself": mean_tau(pairs)}
            for other in self.against:
                both = sorted(set(by_seed) & set(values[other]))
                same = ((by_seed[seed], values[other][seed]) for seed in both)
                line[f"with {other}"] = math.nan if other == measure else mean_tau(same)
            for attack in self.attacks:
                attacked = [run.summary for seed in range(self.seeds) if (run := found(measure, attack, seed)) is not None]
                for name, column in (("cheat_share", f"{attack}: own"), ("cheat_share_of_others", f"{attack}: another's")):
                    moved = [100 * summary[name] for summary in attacked if summary.get(name) is not None]
                    line[column] = float(np.mean(moved)) if moved else math.nan
            line["seeds"] = len(by_seed)
            lines.append(line)
        return pd.DataFrame(lines)


def mean_tau(pairs: Any) -> float:
    """Kendall's τ, averaged over pairs of rankings; nan where a side has no order."""
    found = [float(kendalltau(a, b).statistic) for a, b in pairs]
    found = [value for value in found if not math.isnan(value)]
    return float(np.mean(found)) if found else math.nan
