"""Where incoming keys were found, and the rules that choose where their rows go.

Pure, and vectorised: the driver runs the rules on all keys, Spark's workers each on a share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEW_FILE_GROUP = -1
"""Stands for a slice that is not there yet: the row is new in its own partition."""


@dataclass(frozen=True, slots=True)
class Matches:
    """One entry for each incoming row and slice that has its key; arrays of equal length.

    `alive`: no log deleted the key there. `in_own_partition`: the slice is in the row's own
    partition, or the row tells none. `newer`: the stored row is newer than the incoming one, by the
    ordering fields.
    """

    rows: Positions
    slices: Positions
    alive: Flags
    in_own_partition: Flags
    newer: Flags


@dataclass(frozen=True, slots=True)
class Targets:
    """Where rows that matched go: to a slice, or to a new place (`NEW_FILE_GROUP`).

    `deletes`: the row's key is deleted there instead. Rows of `dropped_rows` go nowhere.
    """

    rows: Positions
    slices: Positions
    deletes: Flags
    dropped_rows: Positions


def keep_live_matches(matches: Matches) -> Targets:
    """Rows go to the slices where their key lives, and nowhere else."""
    return _select_matches(matches, matches.alive)


def keep_where_known(matches: Matches) -> Targets:
    """Rows go where their key lives; if it lives nowhere, to where it was deleted.

    A deleted key still belongs to its file group: another engine's index would find it there, and
    twice if it were inserted again elsewhere.
    """
    return _select_matches(
        matches, matches.alive | (matches.in_own_partition & ~_any_of_row(matches, matches.alive))
    )


def move_to_own_partition(matches: Matches) -> Targets:
    """Rows go to their own partition; keys that live in others are deleted there.

    A row that is older than the one that has its key elsewhere is dropped.
    """
    here = matches.alive & matches.in_own_partition
    stays = here | (matches.in_own_partition & ~_any_of_row(matches, here))
    away = matches.alive & ~matches.in_own_partition
    late = _any_of_row(matches, away & matches.newer)
    stays, away = stays & ~late, away & ~late
    moves = away & ~_any_of_row(matches, stays)
    moving_rows = np.unique(matches.rows[moves])
    return Targets(
        np.concatenate([matches.rows[stays], matches.rows[away], moving_rows]),
        np.concatenate(
            [
                matches.slices[stays],
                matches.slices[away],
                np.full(len(moving_rows), NEW_FILE_GROUP, np.int64),
            ]
        ),
        np.concatenate(
            [
                np.zeros(stays.sum(), bool),
                np.ones(away.sum(), bool),
                np.zeros(len(moving_rows), bool),
            ]
        ),
        np.unique(matches.rows[late]),
    )


def _select_matches(matches: Matches, flags: Flags) -> Targets:
    rows = matches.rows[flags]
    return Targets(rows, matches.slices[flags], np.zeros(len(rows), bool), np.zeros(0, np.int64))


def _any_of_row(matches: Matches, flags: Flags) -> Flags:
    """For each match, whether a flag is set on any match of the same row."""
    if not len(flags):
        return flags
    has_flag = np.zeros(int(matches.rows.max()) + 1, bool)
    has_flag[matches.rows[flags]] = True
    return has_flag[matches.rows]
