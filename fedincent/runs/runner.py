"""One run, top to bottom: load → deal → what it builds on → rounds → judge → store."""

from __future__ import annotations

import copy
import shutil

from fedincent.config.references import references
from fedincent.config.run import Config
from fedincent.errors import ConfigError
from fedincent.runs.session import Session
from fedincent.runs.stage import Stage
from fedincent.runs.view import View, view_for_terminal
from fedincent.store.folder import RunFolder
from fedincent.store.result import Result


def run(config: Config, view: View | None = None) -> Result:
    """Carry out a run, or find it finished; whatever was begun before is resumed."""
    view = view or view_for_terminal()
    stage = Stage(config, view)
    try:
        return complete(stage, config)
    finally:
        stage.close()
        view.close()


def complete(stage: Stage, config: Config) -> Result:
    """The result of a configuration of a stage: found in the store, or made under the lock of its folder."""
    folder, asked = stage.folder(config), config is stage.config
    found = None if config.force else folder.result(config.eval_every)
    if found:
        if asked:
            place = f" in {found.path.parent}" if found.published else ""
            stage.view.message(f"found finished{place}; force=true runs it anew")
        return found
    _ = stage.deals, stage.counts  # what cannot be dealt out is said before a folder is made
    if asked:
        config.logger.check()
    fresh = not folder.path.exists()
    try:
        return made(stage, config, folder)
    except ConfigError:
        if fresh and not folder.begun():  # what was refused leaves nothing behind
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def made(stage: Stage, config: Config, folder: RunFolder) -> Result:
    """The result, made under the lock of its folder, unless somebody else has just made it."""
    with folder.locked(stage.view.message):
        found = None if config.force else folder.result(config.eval_every)
        if found:
            return found
        if folder.finished():  # asked for anew, or there with too coarse a curve
            folder.forget_checkpoint()
        folder.save_config(config.raw)
        others = {name: beneath(stage, config, other) for name, other in references(config).items()}
        try:
            session = Session(stage, config, folder, others)
            try:
                return session.play()
            finally:
                session.end()
        except BaseException:
            config.logger.failed()
            raise


def beneath(stage: Stage, config: Config, other: Config) -> Result:
    """A run that another builds on: of the same stage, or of one of its own where clients brought it other data."""
    if not config.behaviour.of_data or other.behaviour.of_data:
        return complete(stage, other)
    honest = Stage(other, stage.view)
    try:
        return complete(honest, copy.copy(other))
    finally:
        honest.close()
