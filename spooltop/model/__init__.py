"""Values that all packages share, frozen, the interfaces of a backend and of a queue, and the errors: one namespace for all of
them. Only the grammar of filters (``query``) stands apart, as it takes 5 ms to load."""

from spooltop.errors import *  # noqa: F403

from .backend import *  # noqa: F403
from .plan import *  # noqa: F403
from .proc import *  # noqa: F403
from .queue import *  # noqa: F403
from .redact import *  # noqa: F403
from .snapshot import *  # noqa: F403
from .target import *  # noqa: F403
from .vocabulary import *  # noqa: F403
