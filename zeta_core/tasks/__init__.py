"""Tasks: what is learned and how it is scored. The union is the list of them all."""

from typing import Annotated

from pydantic import Field

from .listops import ListOpsConfig
from .mqar import MqarConfig
from .task import Batch, Part, TaskConfigBase, TaskData

TaskConfig = Annotated[MqarConfig | ListOpsConfig, Field(discriminator="kind")]

__all__ = ["Batch", "ListOpsConfig", "MqarConfig", "Part", "TaskConfig", "TaskConfigBase", "TaskData"]
