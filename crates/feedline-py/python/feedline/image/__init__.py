"""`fl.image`: pictures, under the names of `tf.image`. A picture is height x width x channels."""

from __future__ import annotations

from .affine import *  # noqa: F403
from .affine import __all__ as _affine
from .codecs import *  # noqa: F403
from .codecs import __all__ as _codecs
from .colour import *  # noqa: F403
from .colour import __all__ as _colour
from .geometry import *  # noqa: F403
from .geometry import __all__ as _geometry
from .mixing import *  # noqa: F403
from .mixing import __all__ as _mixing
from .policies import *  # noqa: F403
from .policies import __all__ as _policies
from .randomly import *  # noqa: F403
from .randomly import __all__ as _randomly
from .resizing import *  # noqa: F403
from .resizing import __all__ as _resizing

__all__ = [*_affine, *_codecs, *_colour, *_geometry, *_mixing, *_policies, *_randomly, *_resizing]
