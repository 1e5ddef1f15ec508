"""Errors that callers may catch. Each says what was given, the rule, and a way out."""


class ZetaError(Exception):
    """Base of every error this project raises on purpose."""


class RequestError(ZetaError, ValueError):
    """What was asked for breaks a rule; nothing was computed or written."""


class OptionError(RequestError):
    """An option, or a combination of options, is not allowed."""


class ShapeError(RequestError):
    """A tensor's shape or dtype does not fit."""


class NonFiniteError(RequestError):
    """A tensor holds NaN or infinity."""


class DeviceError(RequestError):
    """A device or an implementation that is not available here was asked for."""


class RunBusy(RequestError):
    """Another process is at this run."""


class DataError(RequestError):
    """A task's files are broken, or are others than what was asked for."""


class DataMissing(DataError):
    """A task's examples have not been made or imported yet."""


class ConfigError(RequestError):
    """A configuration breaks one or more rules; `lines` has one message for each."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class RunFailed(ZetaError):
    """A run began and did not end well; its folder and its row say why. quiet: another of its processes says so."""

    def __init__(self, text: str, *, quiet: bool = False) -> None:
        super().__init__(text)
        self.quiet = quiet


class StorageError(ZetaError, OSError):
    """A file could not be read or written; files already there are as they were."""
