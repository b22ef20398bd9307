"""fedincent audit"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedincent.cli.options import (
    add_launching,
    add_plugins,
    add_results,
    add_verb,
    launch,
    positive,
    results_folder,
    take_launcher,
)
from fedincent.errors import ConfigError, FedincentError

WHAT = ("cheating", "effort", "types", "stability")
LEGEND = (
    "Gain of those who cheat (one client in ten, or behaviour.share), in points of their reward, ± standard error over "
    "seeds (each seed draws them). PAYS, no, ?: the gain and the work saved, with all of a client's work worth {worth:g} "
    "points, are above 0, not above 0, or undecided at this number of seeds (95 % t interval)."
)


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "audit",
        act,
        "does it pay to be honest under a mechanism? cheating, effort, and how stable contributions are",
        ("fedincent audit mechanism=iafl dataset=digits", "fedincent audit mechanism=fedavg,iafl --what effort"),
        "Does the runs that are missing (launcher=… says where), then shows what they say; without mechanism=… of all\n"
        "mechanisms that the audit lists. Files go to RESULTS/tables/ and RESULTS/figures/. What is assumed: docs/audit.md",
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="mechanism=A,B, behaviour=C,D, dataset=… and other overrides"
    )
    parser.add_argument("--what", choices=WHAT, default="cheating", help="which audit (default: %(default)s)")
    parser.add_argument("--seeds", type=positive, metavar="K", help="seeds 0 … K−1 instead of the audit's own number")
    parser.add_argument(
        "--worth", type=float, default=1.0, metavar="POINTS", help="what all of a client's work is worth (default: 1)"
    )
    parser.add_argument(
        "--cost",
        type=float,
        default=0.1,
        metavar="C",
        help="cost of all one's data in the picture of efforts (default: 0.1)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the runs that are missing, and stop")
    add_launching(parser)
    add_results(parser)
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """Runs, numbers, picture."""
    from fedincent.store.index import Index
    from fedincent.studies.audit import Cheating, EffortAudit, Stability

    given.run = True
    launcher, folder = take_launcher(given), results_folder(given)
    audit: Any
    if given.what == "cheating":
        audit = Cheating.of(given.overrides, given.seeds)
    elif given.what == "stability":
        audit = Stability.of(given.overrides, given.seeds)
    else:
        audit = EffortAudit.of("effort" if given.what == "effort" else "effort_types", given.overrides, given.seeds)
    failure = None
    try:
        launch(given, launcher, audit.wishes(), folder)
    except ConfigError:
        raise
    except FedincentError as error:  # what could be run is shown all the same
        failure = error
    if not (given.dry_run or given.detach):
        show = {"cheating": show_cheating, "stability": show_stability}.get(given.what, show_effort)
        show(audit, Index(folder), given, folder)
    if failure:
        raise failure


def name_of(number: str, given: argparse.Namespace) -> str:
    """What an audit's files are called: by what was asked beside the usual."""
    return "+".join([f"audit-{number}", *given.overrides]).replace("/", "_")


def show_cheating(audit: Any, index: Any, given: argparse.Namespace, folder: Path) -> None:
    """The verdicts: of one mechanism in full, of several as a grid."""
    from fedincent.studies.audit import cheating_grid, cheating_picture

    frame = audit.frame(index, given.worth)
    grid = cheating_grid(frame).reset_index()
    one = frame.mechanism.nunique() == 1
    shown = in_full(frame) if one else grid
    legend = LEGEND.format(worth=given.worth)
    if one:
        legend += " Pays from: what all of its work must be worth, in points, for cheating to pay on average."
    print_frame(shown, "Does cheating pay?", legend)
    name = name_of("1-verdicts", given)
    picture = None if one else (cheating_picture(frame, given.worth), (1.6 + 0.9 * frame.mechanism.nunique(), 6.0))
    write(folder, name, "Does cheating pay?", shown, frame, legend + "\n\n" + audit.table.note, picture)


def in_full(frame: Any) -> Any:
    """One mechanism's lines with everything that is known."""

    def number(value: float, words: str) -> str:
        return "–" if value != value else "never" if value == float("inf") else words.format(value)

    rows = [
        {
            "behaviour": row.behaviour,
            "gain": number(row.gain, "{:+.1f}") + (number(row.error, " ±{:.1f}") if row.seeds > 1 else ""),
            "others": number(row.others, "{:+.1f}"),
            "saved": number(row.saving, "{:.0f} %"),
            "pays from": number(row.pays_from, "{:.1f}"),
            "verdict": row.verdict,
            "seeds": row.seeds,
        }
        for row in frame.itertuples()
    ]
    return type(frame)(rows)


def show_effort(audit: Any, index: Any, given: argparse.Namespace, folder: Path) -> None:
    """Equilibria over costs, and payoffs against effort."""
    from fedincent.results.render import NAMES

    rewards = audit.rewards(index)
    if not rewards:
        raise ConfigError("audit", audit.name, "no mechanism has all of its runs at one seed")
    frame = audit.frame(rewards)
    spread = [f"{row.effort_low:.2g}–{row.effort_high:.2g}" for row in frame.itertuples()]
    shown = frame.drop(columns=["mean_effort", "effort_low", "effort_high"])
    shown.insert(3, "90 %", spread)
    shown["mechanism"] = [NAMES.get(name, name) for name in frame.mechanism]
    shown["path"] = [words.rpartition(" → ")[2] for words in frame.path]
    for column in ("regret", "welfare", "best_welfare", "price_of_free_riding"):
        shown[column] = [f"{value:.1f}" for value in frame[column]]
    shown = shown.rename(
        columns={"best_welfare": "best", "price_of_free_riding": "price", "optimum": "optimal", "path": "ends"}
    )
    legend = (
        "Effort in equilibrium (of each type); 90 %: where its mean lies in 90 % of resampled seeds; ends: where best "
        "responses from full effort end, one step of the grid at a time; regret: what a client would "
        "gain by leaving it; optimal: best for all; welfare: mean payoff in points, best: the optimum's; price: what free "
        "riding costs."
    )
    if frame.seeds.nunique() == 1:
        shown, legend = shown.drop(columns="seeds"), f"{legend} {frame.seeds[0]} seeds."
    print_frame(shown, audit.title, legend)
    picture = None
    if len(audit.types) == 1:
        picture = (audit.picture(rewards, given.cost), (max(6.4, 2.4 * len(rewards) + 0.8), 3.6))
    number = "2" if given.what == "effort" else "2-types"
    write(folder, name_of(number, given), audit.title, shown, frame, legend + "\n\n" + audit.note, picture)


def show_stability(audit: Any, index: Any, given: argparse.Namespace, folder: Path) -> None:
    """How well measures agree, and what cheats move."""
    frame = audit.frame(index)
    shown = frame.copy()
    for column in frame.columns[1:-1]:
        form = "{:.2f}" if column.startswith("with") else "{:+.1f}"
        shown[column] = ["–" if value != value else form.format(value) for value in frame[column]]
    shown = shown.set_index("measure").T.reset_index().rename(columns={"index": ""})
    legend = (
        "with …: Kendall's τ over the clients, the mean over seeds. Below, by how many points an attack moves the cheat's "
        "own share of all contributions, and that other client's whose share moves most."
    )
    print_frame(shown, audit.title, legend)
    write(folder, name_of("3", given), audit.title, shown, frame, legend, None)


def print_frame(frame: Any, title: str, legend: str) -> None:
    """A data frame of texts in the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, column in enumerate(frame.columns):
        table.add_column(str(column), justify="left" if place == 0 else "right", no_wrap=place == 0, overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:g}" if isinstance(value, float) else str(value) for value in row))
    console = Console()
    console.print(table)
    console.print(legend, highlight=False)


def write(folder: Path, name: str, title: str, shown: Any, frame: Any, legend: str, picture: Any) -> None:
    """The numbers as CSV and Markdown, and the picture."""
    from fedincent.results.figures import Figure, save
    from fedincent.store.files import write_text

    head = "| " + " | ".join(map(str, shown.columns)) + " |\n|" + "---|" * len(shown.columns) + "\n"
    body = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in shown.itertuples(index=False))
    paths = [folder / "tables" / f"{name}.md", folder / "tables" / f"{name}.csv"]
    write_text(paths[0], f"# {title}\n\n{head}{body}\n{legend}\n")
    write_text(paths[1], frame.to_csv(index=False))
    if picture is not None:
        drawing, size = picture
        paths += save(Figure(name=name, title=title, kind="study"), title, size, drawing, folder / "figures")
    print("files:", *paths)
