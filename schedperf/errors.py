"""What can go wrong, for callers that act differently on it.

::

    SchedperfError            one line for the user, exit status 2
    ├── InputError            something the user gave us cannot be used: a file, a number, a name
    │   └── BundleError       a bundle that cannot be read
    └── NotComparable         the bundles are fine, but comparing them means nothing; exit status 4

A message says where, what was found and what to do: lower case, no full stop.
"""


class SchedperfError(Exception):
    """Base of all errors that are the user's to mend."""

    exit_status = 2


class InputError(SchedperfError):
    """Something that the user gave cannot be used."""


class BundleError(InputError):
    """A bundle cannot be read."""


class NotComparable(SchedperfError):
    """Two bundles cannot be compared at all."""

    exit_status = 4
