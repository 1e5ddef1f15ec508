"""Tasks: what is learned and how it is scored. The union is the list of them all."""

from typing import Annotated

from pydantic import Field

from .image import ImageConfig
from .language import LanguageConfig
from .listops import ListOpsConfig
from .listops_files import ListOpsFilesConfig
from .mqar import MqarConfig
from .pathfinder import PathfinderConfig, PathXConfig
from .pathfinder_files import PathfinderFilesConfig
from .retrieval import RetrievalConfig
from .task import Batch, Part, TaskConfigBase, TaskData
from .text import TextConfig

TaskConfig = Annotated[
    MqarConfig
    | ListOpsConfig
    | TextConfig
    | RetrievalConfig
    | ImageConfig
    | PathfinderConfig
    | PathXConfig
    | ListOpsFilesConfig
    | PathfinderFilesConfig
    | LanguageConfig,
    Field(discriminator="kind"),
]

__all__ = [
    "Batch", "ImageConfig", "LanguageConfig", "ListOpsConfig", "ListOpsFilesConfig", "MqarConfig", "Part",
    "PathXConfig", "PathfinderConfig", "PathfinderFilesConfig", "RetrievalConfig", "TaskConfig", "TaskConfigBase",
    "TaskData", "TextConfig",
]  # fmt: skip
