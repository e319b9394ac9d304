from nnet3.export.metadata import NetworkMetadata as NetworkMetadata, load_network_metadata as load_network_metadata

from .exporting import export_network as export_network
