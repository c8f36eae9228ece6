import type { Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { type Clock, systemClock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";

/**
 * Starts TLS with a program in a sandbox. Its certificate is not verified: the connection through the cell already leads to this
 * sandbox and no other.
 * @param alpn the protocols that the gateway speaks
 * @throws RametError `SandboxUnreachable`
 */
export function startTls(socket: Socket, alpn: string[], clock: Clock = systemClock): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const secure = connect({ socket, ALPNProtocols: alpn, rejectUnauthorized: false, minVersion: "TLSv1.2" });
  const fail = (cause: Error): void => {
    socket.destroy();
    secure.destroy();
    reject(
      new RametError("SandboxUnreachable", `The program in the sandbox does not serve HTTPS: ${cause.message}`, {
        cause,
        retryable: true,
        hint: "Check that it serves HTTPS on this port, or remove the port from httpsPorts",
      }),
    );
  };
  const onClose = (): void => {
    fail(new Error("it closed the connection"));
  };
  const cancel = clock.schedule(handshakeMilliseconds, () => {
    fail(new Error(`it did not answer within ${handshakeMilliseconds / 1000} s`));
  });
  secure.once("error", fail).once("close", onClose);
  secure.once("secureConnect", () => {
    cancel();
    secure.off("error", fail).off("close", onClose);
    resolve(secure);
  });
  return promise.finally(cancel);
}

const handshakeMilliseconds = 10_000;
