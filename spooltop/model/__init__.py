"""Values that all packages share, frozen, and the interfaces of a backend and of a queue: one namespace for all of them. Only the
grammar of filters (``query``), the parsers of ``/proc`` (``proc``) and what hides values (``redact``) stand apart."""

from .backend import *  # noqa: F403
from .plan import *  # noqa: F403
from .queue import *  # noqa: F403
from .snapshot import *  # noqa: F403
from .target import *  # noqa: F403
from .vocabulary import *  # noqa: F403
