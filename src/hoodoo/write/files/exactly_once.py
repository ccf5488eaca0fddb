"""The work of a handle, done once however often it runs.

Tasks are run again when they, or what they wrote, seem lost, and two attempts of one task may run
side by side; an attempt may go on when the write was committed, or rolled back, long ago. So an
attempt keeps its files hidden, asks whether they are still needed, publishes them, and then the
completion marker decides between attempts: it names the attempt that counts, and what it wrote.
`docs/protocol/robust-writes.md` has every order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hoodoo.config.write import FAIL_ON_FINALIZE_MARKER
from hoodoo.errors import CommitFailed, ObjectExists, ObjectNotFound, add_error_source
from hoodoo.format.markers import CompletionMarker, Digest, decode_completion, encode_completion
from hoodoo.model import paths
from hoodoo.model.commit import WriteStat
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import parse_base_file, parse_log_file
from hoodoo.recovery.strays import delete_files, find_strays_of_instant
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once
from hoodoo.table.timeline import Timeline, load_rollback_targets
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.finalize import read_final
from hoodoo.write.files.outputs import Outputs

# -- completion markers -------------------------------------------------------------------------


def record_completion(
    env: Env, instant_time: InstantTime, epoch: int, completion: CompletionMarker
) -> CompletionMarker:
    """Say that a handle is done; tells which attempt of it was the first to say so.

    Raises `OutcomeUnknown`: then it may have been this one.
    Order: the marker, put-if-absent.
    Crash: whoever runs the handle again returns what the marker says.
    """
    path = paths.completion(instant_time, epoch, completion.handle)
    try:
        create_once(env, path, encode_completion(completion))
    except ObjectExists:
        winner = load_completion(env, instant_time, epoch, completion.handle)
        return (
            winner or completion
        )  # gone meanwhile: the instant has ended, as this one will find out
    return completion


def load_completion(
    env: Env, instant_time: InstantTime, epoch: int, handle: str
) -> CompletionMarker | None:
    """What a handle wrote, if it is done."""
    return _read_completion(env, paths.completion(instant_time, epoch, handle))


def load_completions(
    env: Env, instant_time: InstantTime, epoch: int
) -> Mapping[str, CompletionMarker]:
    """The handles of one attempt at an instant that are done, by name.

    For those who carry on with a plan whose executor died: what it finished need not be done
    again, if the files are there.
    """
    completions = {}
    for entry in env.storage.list(paths.completion_directory(instant_time, epoch)):
        completion = _read_completion(env, entry.path)
        if completion is not None:
            completions[completion.handle] = completion
    return completions


def delete_completions(env: Env, instant_time: InstantTime) -> None:
    """Remove what the handles of an instant left.

    Needs: the instant has ended: whoever comes later finds that out.
    """
    directory = paths.completion_directory(instant_time)
    delete_files(env, [entry.path for entry in env.storage.list(directory, recursive=True)])


def _read_completion(env: Env, path: str) -> CompletionMarker | None:
    try:
        data = env.storage.read(path)
    except ObjectNotFound:
        return None
    with add_error_source(path):
        return decode_completion(data)


# -- running a handle once ----------------------------------------------------------------------


Stats = tuple[WriteStat, ...]
HandleOutput = tuple[Stats, Digest | None]


def write_handle_once(
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
        return _claim_completion(outputs, CompletionMarker(handle, input_digest, stats))


def _claim_completion(outputs: Outputs, mine: CompletionMarker) -> Stats:
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
    file_name = parse_log_file(name) or parse_base_file(name)
    return int(file_name.token.partition("-")[0]) if file_name and file_name.token else None


def _load_winner(context: WriteContext, handle: str) -> CompletionMarker | None:
    return load_completion(context.ref.env, context.requested_time, context.epoch, handle)


def _adopt_stats(
    context: WriteContext, winner: CompletionMarker, input_digest: Digest | None
) -> Stats:
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
    return is_rolled_back or bool(find_strays_of_instant(ref, timeline, time, files))


def _is_open(context: WriteContext, timeline: Timeline) -> bool:
    """Whether the instant can still be committed: pending, and nobody rolls it back."""
    time = context.requested_time
    instant = timeline.find(time)
    if instant is None or not instant.is_pending:
        return False
    later = [other for other in timeline.pending if other.requested_time > time]
    paths = context.ref.properties.timeline_paths
    return time not in load_rollback_targets(context.ref.env, paths, later)


def _late_error(context: WriteContext) -> CommitFailed:
    return CommitFailed(
        f"instant {context.requested_time} has been finalized, or has ended: "
        "an attempt that comes too late writes nothing"
    )
