"""A server of recognizers: the WebSocket protocol of vosk-server, many connections through one StreamComputer."""

from nnet3.errors import Nnet3Error

try:
    import prometheus_client
    import websockets
except ImportError as _missing:
    raise Nnet3Error(
        f"a server needs the package {_missing.name}, which is not installed: pip install 'nnet3[serve]'"
    ) from None
