"""Tasks: what is learned and how it is scored. The union is the list of them all."""

from .mqar import MqarConfig
from .task import Batch, Part, TaskConfigBase, TaskData

# One member so far; with a second: Annotated[MqarConfig | ..., Field(discriminator="kind")]
TaskConfig = MqarConfig

__all__ = ["Batch", "MqarConfig", "Part", "TaskConfig", "TaskConfigBase", "TaskData"]
