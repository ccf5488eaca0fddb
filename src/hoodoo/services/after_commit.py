"""What a commit leaves to be done: cleaning and archival, if they are due and switched on."""

from __future__ import annotations

import logging

from hoodoo.config.upkeep import ARCHIVE_AUTOMATIC, CLEAN_AUTOMATIC
from hoodoo.engine.engine import Engine
from hoodoo.errors import HoodooError
from hoodoo.services.archive import archive, is_archive_due
from hoodoo.services.clean import clean, is_clean_due
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.services")


def keep_up(ref: TableRef, engine: Engine) -> None:
    """Clean and archive. A failure is told to the log: the commit stands, and the next one tries.

    Order: timeline; clean; archive.
    """
    cleans, archives = ref.config.get(CLEAN_AUTOMATIC), ref.config.get(ARCHIVE_AUTOMATIC)
    if not cleans and not archives:
        return
    try:
        timeline = ref.load_timeline()
        if cleans and is_clean_due(ref, timeline):
            clean(ref, engine)
        if archives and is_archive_due(ref, timeline):
            archive(ref, engine)
    except HoodooError as error:
        log.warning("keep_up_failed error=%s", error)
