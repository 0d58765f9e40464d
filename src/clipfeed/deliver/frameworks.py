"""Whether the framework that a format needs is there: asked before any file is read.

The only place that turns a missing package into our error. Nothing here touches data.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal, TypeAlias

from clipfeed._types import DataFormat
from clipfeed.errors import MissingDependencyError

__all__ = [
    "FORMATS",
    "Format",
    "default_data_format",
    "import_keras",
    "import_tensorflow",
    "keras_backend",
    "require_format",
]

Format: TypeAlias = Literal["tf", "keras", "numpy"]
FORMATS: tuple[Format, ...] = ("tf", "keras", "numpy")


def require_format(format: Format) -> None:
    """Make sure that a format's framework can be imported.

    Raises:
        MissingDependencyError: With the pip line, if it cannot.
    """
    if format == "tf":
        import_tensorflow()
    elif format == "keras":
        import_keras()


def import_tensorflow() -> Any:  # noqa: ANN401  # a module whose types are not installed everywhere
    """Give the module `tensorflow`.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    return _import("tensorflow", needed_for='format="tf"', remedy='pip install "clipfeed[tensorflow]"')


def import_keras() -> Any:  # noqa: ANN401  # as above
    """Give the module `keras`; it brings the backend that `KERAS_BACKEND` or Keras's configuration names.

    Raises:
        MissingDependencyError: If it, or its backend, is not installed.
    """
    return _import(
        "keras",
        needed_for='format="keras" and cf.EpochSync()',
        remedy='pip install "clipfeed[tensorflow]"; or "clipfeed[jax]" or "clipfeed[torch]", with KERAS_BACKEND set',
    )


def keras_backend() -> str | None:
    """Give the name of Keras's backend, None where Keras cannot be imported."""
    try:
        return str(import_keras().config.backend())
    except MissingDependencyError:
        return None


def default_data_format(format: Format) -> DataFormat:
    """Say where the channels go when the user does not: as Keras is configured, last where there is no Keras."""
    if format == "numpy" or keras_backend() is None:
        return "channels_last"
    return "channels_first" if import_keras().config.image_data_format() == "channels_first" else "channels_last"


def _import(name: str, *, needed_for: str, remedy: str) -> Any:  # noqa: ANN401  # as above
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"{needed_for} needs {name}, which cannot be imported: {error}", stage="deliver", remedy=remedy
        ) from error
