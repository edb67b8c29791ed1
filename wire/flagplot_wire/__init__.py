"""What cockpit, controller and agents share: the job model, units and the protocol."""

__version__ = "0.1.0"
PROTOCOL_VERSION = 1
