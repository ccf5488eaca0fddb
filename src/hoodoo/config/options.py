"""Keys about options themselves."""

from __future__ import annotations

from hoodoo.config.key import Key, boolean

STRICT = Key(
    "hoodoo.strict",
    boolean,
    False,
    "An option that neither hoodoo nor Apache Hudi knows is an error, not a warning.",
)
