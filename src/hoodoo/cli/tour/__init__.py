"""The guided tour that `hoodoo demo` takes: `steps` has the steps, `step` what they share."""
