# The public names of nnet3.components, and where each lives.
from nnet3.model.components.base import (
    Component as Component,
    Properties as Properties,
    UpdatableComponent as UpdatableComponent,
)
from nnet3.model.components.component_types import (
    COMPONENT_TYPES as COMPONENT_TYPES,
    create as create,
    create_from_line as create_from_line,
    read as read,
    read_from as read_from,
)
from nnet3.model.components.random_source import RandomSource as RandomSource
