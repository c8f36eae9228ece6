import type { ErrorCode } from "../base/error-codes.ts";
import type { RametError } from "../base/errors.ts";
import type { ClientRequest } from "./exchange.ts";

/** Whether a request is one of gRPC over HTTP/2. gRPC-Web also works over HTTP/1.1, and is not. */
export function isGrpc({ stream, headers }: Pick<ClientRequest, "stream" | "headers">): boolean {
  return stream !== undefined && /^application\/grpc(?:$|[+;])/.test(headers["content-type"] ?? "");
}

/** The status codes of gRPC (grpc/grpc, doc/statuscodes.md). A client repeats what is UNAVAILABLE. */
const codes: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 3,
  Forbidden: 7,
  NotFound: 14,
  SandboxNotReady: 14,
  SandboxUnreachable: 14,
  Unavailable: 14,
  Timeout: 14,
  Unauthorized: 16,
};
const internal = 13;

/** Returns the headers of a gRPC response that has only an error. */
export function grpcStatus(error: RametError): string[] {
  return [
    "content-type",
    "application/grpc",
    "grpc-status",
    String(codes[error.code] ?? internal),
    "grpc-message",
    percentEncoded(error.describe()),
  ];
}

/** As for header values of gRPC: printable ASCII but the percent sign is kept (grpc/grpc, doc/PROTOCOL-HTTP2.md). */
function percentEncoded(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) =>
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
    )
    .join("");
}
