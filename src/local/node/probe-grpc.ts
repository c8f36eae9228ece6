import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";

export interface GrpcProbe {
  ip: string;
  port: number;
  service: string;
  signal: AbortSignal;
}

const maxAnswerBytes = 1024;
const okStatus = "0";
/** `HealthCheckResponse.ServingStatus` */
const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/**
 * Calls `grpc.health.v1.Health/Check` without TLS, as a kubelet does (https://grpc.io/docs/guides/health-checking/).
 * Resolves with the problem, or undefined if the service is serving.
 */
export async function probeGrpc({ ip, port, service, signal }: GrpcProbe): Promise<string | undefined> {
  const session = connect(`http://${ip}:${port}`);
  // The server can fail the session more than once, also after its answer.
  session.on("error", () => undefined);
  const failed = once(session, "error").then(([error]) => {
    throw error;
  });
  const abort = (): void => {
    session.destroy(new Error("no response in time"));
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([check(session, service), failed]);
  } finally {
    failed.catch(() => undefined);
    signal.removeEventListener("abort", abort);
    session.destroy();
  }
}

async function check(session: ClientHttp2Session, service: string): Promise<string | undefined> {
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.health.v1.Health/Check",
    "content-type": "application/grpc",
    te: "trailers",
    "user-agent": "kube-probe/1.36",
  });
  stream.on("error", () => undefined);
  let status: string | undefined;
  const note = (headers: Record<string, unknown>): void => {
    const found = headers["grpc-status"];
    if (typeof found === "string") status = found;
  };
  stream.on("response", note).on("trailers", note);
  stream.end(request(service));
  let answer = Buffer.alloc(0);
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    answer = Buffer.concat([answer, chunk]);
    if (answer.length > maxAnswerBytes) return "the response is too long";
  }
  if (status !== okStatus) return `gRPC status ${status ?? "missing"}`;
  const serving = servingStatus(answer);
  return serving === "SERVING" ? undefined : `the service is ${serving}`;
}

/** A frame with a `HealthCheckRequest`, whose field 1 is the service's name. */
function request(service: string): Buffer {
  const name = Buffer.from(service);
  const message = name.length === 0 ? name : Buffer.concat([Buffer.from([0x0a, ...varint(name.length)]), name]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

/** Reads field 1, the status, of the `HealthCheckResponse` in the first frame. Zero is left out. */
function servingStatus(answer: Buffer): string {
  const [tag, value] = answer.subarray(5);
  return (tag === 0x08 && value !== undefined ? servingStatuses[value] : undefined) ?? "UNKNOWN";
}
