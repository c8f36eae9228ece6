import type { ClientRequest } from "node:http";
import { RametError } from "../../base/errors.ts";

/** A cell is on the same network; one that lets a connection wait for longer is not there. */
const connectMilliseconds = 2_000;

/** Ends a request that has no connection within two seconds with `Unavailable`: nothing was sent, so it can be repeated. */
export function boundConnecting(request: ClientRequest, ip: string): void {
  const seconds = connectMilliseconds / 1000;
  endAfter(request, connectMilliseconds, "connect", () => {
    return new RametError("Unavailable", `the cell at ${ip} cannot be reached: no connection within ${seconds} s`, {
      retryable: true,
    });
  });
}

/** Ends a request whose answer has not begun in time with `Timeout`. */
export function boundAnswer(request: ClientRequest, milliseconds: number, what: string): void {
  endAfter(request, milliseconds, "answer", () => {
    return new RametError("Timeout", `${what} was given up: the cell did not answer within ${milliseconds / 1000} s`, {
      retryable: true,
      hint: "See with kubectl get pod and kubectl logs whether the sandbox's Pod is well",
    });
  });
}

function endAfter(
  request: ClientRequest,
  milliseconds: number,
  what: "connect" | "answer",
  why: () => RametError,
): void {
  const timer = setTimeout(() => request.destroy(why()), milliseconds);
  const done = (): void => {
    clearTimeout(timer);
  };
  request.once("close", done);
  if (what === "answer") {
    request.once("response", done).once("upgrade", done);
    return;
  }
  request.once("socket", (socket) => {
    if (socket.connecting) socket.once("connect", done);
    else done();
  });
}
