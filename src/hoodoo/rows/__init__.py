"""Pure computations on rows: Arrow in, Arrow out; nothing is opened, nothing loops over rows."""
