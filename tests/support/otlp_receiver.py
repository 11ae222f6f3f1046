"""A collector of traces: OTLP over gRPC, what it is sent in hex, a line each. Run by an interpreter that has grpcio.

It takes every export and understands none: whoever reads the lines looks for what must be in them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


def main() -> None:
    """Print the port, then what comes."""
    import grpc  # type: ignore[import-untyped]

    def export(raw: bytes, _: Any) -> bytes:
        print(raw.hex(), flush=True)
        return b""  # an ExportTraceServiceResponse without fields

    server = grpc.server(ThreadPoolExecutor(2))
    handlers = {"Export": grpc.unary_unary_rpc_method_handler(export)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
