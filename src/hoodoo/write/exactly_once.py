"""The work of a handle, done once however often it runs.

Tasks are run again when they, or what they wrote, seem lost, and two attempts of one task may run
side by side; an attempt may go on when the write was committed, or rolled back, long ago. So an
attempt keeps its files hidden, asks whether they are still wanted, publishes them, and then the
completion marker decides between attempts. `docs/protocol/robust-writes.md` has every order of
events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hoodoo.config.tasks import FAIL_ON_FINALIZE_MARKER
from hoodoo.errors import CommitFailed
from hoodoo.format.completion import Completion, Digest
from hoodoo.model.names import parse_base_file, parse_log_file
from hoodoo.model.stats import WriteStat
from hoodoo.table.strays import strays_of
from hoodoo.timeline.load import load_rollback_targets
from hoodoo.timeline.timeline import Timeline
from hoodoo.write.completion import load_completion, record_completion
from hoodoo.write.context import WriteContext
from hoodoo.write.finalize import read_final
from hoodoo.write.outputs import Outputs

Stats = tuple[WriteStat, ...]
HandleOutput = tuple[Stats, Digest | None]


def write_once(
    outputs: Outputs,
    handle: str,
    make: Callable[[], HandleOutput],
    digest: Callable[[], Digest | None],
) -> Stats:
    """Have a handle's files made and published, unless another attempt has done it already.

    `make` writes the files; `digest` only goes through the input, for attempts that need not.
    Raises `CommitFailed` for an attempt that comes too late, or that was given other rows.

    Order, if tasks repeat: finalize and completion marker looked at; files made, hidden;
    completion marker, finalize marker and timeline looked at; files published; completion marker,
    put-if-absent; finalize marker and timeline looked at. Whoever loses deletes its own files.
    Crash: hidden files, which nobody sees; or files with markers, which finalize, rollback or
    sweep remove unless a completion marker names them.
    """
    context = outputs.context
    with outputs:
        if not context.repeats:
            stats, _ = make()
            outputs.publish()
            return stats
        final_stats = _load_final_stats(context, outputs.index)
        if final_stats is not None:
            return final_stats
        winner = _load_winner(context, handle)
        if winner is not None:
            return _adopt_stats(context, winner, digest())
        stats, input_digest = make()
        winner = _load_winner(context, handle)
        if winner is not None:
            return _adopt_stats(context, winner, input_digest)
        if _is_over(context):
            raise _late_error(context)
        outputs.publish()
        return _claim_completion(outputs, Completion(handle, input_digest, stats))


def _claim_completion(outputs: Outputs, mine: Completion) -> Stats:
    """Decide between this attempt, whose files are published, and others."""
    context = outputs.context
    winner = record_completion(context.ref.env, context.requested_time, context.epoch, mine)
    if winner != mine:
        outputs.withdraw()
        return _adopt_stats(context, winner, mine.digest)
    if _is_unwanted(context, outputs.paths):
        outputs.withdraw()
        raise _late_error(context)
    return mine.stats


def _load_final_stats(context: WriteContext, index: int) -> Stats | None:
    """What a handle that runs after its write was finalized is to return; None if it was not."""
    final = read_final(context.ref.env, context.requested_time)
    if final is None or final.epoch < context.epoch:
        return None
    fails = context.ref.config.get(FAIL_ON_FINALIZE_MARKER)
    if final.stats is None or final.epoch > context.epoch or fails:
        raise _late_error(context)
    return tuple(stat for stat in final.stats if _index_of(stat) == index)


def _index_of(stat: WriteStat) -> int | None:
    """The handle that wrote a file: its number is the first one of the write token."""
    name = stat.file_name or ""
    parsed = parse_log_file(name) or parse_base_file(name)
    return int(parsed.token.partition("-")[0]) if parsed and parsed.token else None


def _load_winner(context: WriteContext, handle: str) -> Completion | None:
    return load_completion(context.ref.env, context.requested_time, context.epoch, handle)


def _adopt_stats(context: WriteContext, winner: Completion, input_digest: Digest | None) -> Stats:
    """What another attempt wrote, if it was given the same rows."""
    if input_digest is not None and winner.digest is not None and input_digest != winner.digest:
        raise CommitFailed(
            f"instant {context.requested_time}: the input of the write is not deterministic: two "
            f"attempts of {winner.handle} were given different rows "
            f"({winner.digest}, {input_digest})"
        )
    return winner.stats


def _is_over(context: WriteContext) -> bool:
    """Whether the write goes on, or has ended, without attempts that are not done by now."""
    final = read_final(context.ref.env, context.requested_time)
    if final is not None and final.epoch >= context.epoch:
        return True
    return not _is_open(context, context.ref.load_timeline())


def _is_unwanted(context: WriteContext, files: Sequence[str]) -> bool:
    """Whether published files, of an attempt that has won, are strays all the same.

    A finalize marker without stats means nothing: the write had every handle's completion marker
    before it, so this attempt is the one that it knows. Completion markers go when the instant has
    ended; only then a second attempt can win, and the commit tells which of them counts.
    """
    ref, time = context.ref, context.requested_time
    final = read_final(ref.env, time)
    if final is not None and final.stats is not None:
        return not {stat.path for stat in final.stats}.issuperset(files)
    timeline = ref.load_timeline()
    if _is_open(context, timeline):
        return False
    instant = timeline.find(time)
    is_rolled_back = instant is not None and instant.is_pending
    return is_rolled_back or bool(strays_of(ref, timeline, time, files))


def _is_open(context: WriteContext, timeline: Timeline) -> bool:
    """Whether the instant can still be committed: pending, and nobody rolls it back."""
    time = context.requested_time
    instant = timeline.find(time)
    if instant is None or not instant.is_pending:
        return False
    later = [other for other in timeline.pending if other.requested_time > time]
    paths = context.ref.properties.timeline
    return time not in load_rollback_targets(context.ref.env, paths, later)


def _late_error(context: WriteContext) -> CommitFailed:
    return CommitFailed(
        f"instant {context.requested_time} has been finalized, or has ended: "
        "an attempt that comes too late writes nothing"
    )
