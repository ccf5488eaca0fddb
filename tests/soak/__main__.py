"""`python -m soak --minutes 10 --kind mor --store s3`: see docs/testing.md; exit code 1 is bad."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from soak.report import print_report
from soak.soak_run import Setting, conduct
from soak.world import World, open_world


def main() -> int:
    """Soak, judge, and tell; everything stays where it is if something is wrong."""
    setting = parse(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix=f"hoodoo-soak-{setting.kind}-"))
    print(f"soak in {folder}: {setting}", flush=True)
    with ExitStack() as servers:
        world: World = servers.enter_context(open_world(setting, folder))
        result = conduct(setting, world, folder)
        if result.findings:
            world.keep_table(folder / "table")
    print_report(setting, result)
    if result.findings:
        print(f"table, journals and logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def parse(arguments: list[str]) -> Setting:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kind", choices=["cow", "mor"], default="cow")
    parser.add_argument("--store", choices=["local", "s3"], default="local")
    parser.add_argument("--lock", choices=["storage", "zookeeper"], default="storage")
    parser.add_argument("--beside-hudi", action="store_true", help="local disk and ZooKeeper only")
    parser.add_argument("--indexes", action="store_true", help="build and drop indexes meanwhile")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args(arguments)
    if given.beside_hudi and given.store != "local":
        parser.error("Apache Hudi runs on a Spark that cannot reach S3: --beside-hudi is local")
    lock = "zookeeper" if given.beside_hudi else given.lock
    return Setting(
        minutes=given.minutes,
        kind=given.kind,
        store=given.store,
        lock=lock,
        beside_hudi=given.beside_hudi,
        seed=given.seed,
        indexes=given.indexes,
    )


if __name__ == "__main__":
    sys.exit(main())
