import type { ClientRequest } from "node:http";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";

/** A cell is on the same network: one that does not accept a connection within this time does not exist. */
const connectMilliseconds = 2_000;

/** Fails a request without a connection after two seconds with `Unavailable`. Nothing was sent, so it can be repeated. */
export function limitConnecting(clock: Clock, request: ClientRequest, ip: string): void {
  const seconds = connectMilliseconds / 1000;
  failAfter({ clock, request, milliseconds: connectMilliseconds, until: "connect" }, () => {
    return new RametError("Unavailable", `cannot reach the cell at ${ip}: no connection within ${seconds} s`, {
      retryable: true,
    });
  });
}

/** Fails a request with `Timeout` if its response has not started in time. */
export function limitResponse(
  clock: Clock,
  request: ClientRequest,
  { milliseconds, what }: { milliseconds: number; what: string },
): void {
  failAfter({ clock, request, milliseconds, until: "response" }, () => {
    return new RametError("Timeout", `${what} timed out: the cell did not respond within ${milliseconds / 1000} s`, {
      retryable: true,
      hint: "Check the sandbox's Pod with kubectl get pod and kubectl logs",
    });
  });
}

interface RequestLimit {
  clock: Clock;
  request: ClientRequest;
  milliseconds: number;
  until: "connect" | "response";
}

function failAfter({ clock, request, milliseconds, until }: RequestLimit, why: () => RametError): void {
  const done = clock.schedule(milliseconds, () => {
    request.destroy(why());
  });
  request.once("close", done);
  if (until === "response") {
    request.once("response", done).once("upgrade", done);
    return;
  }
  request.once("socket", (socket) => {
    if (socket.connecting) socket.once("connect", done);
    else done();
  });
}
