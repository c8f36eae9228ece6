import type { Socket } from "node:net";
import type { Clock } from "../base/clock.ts";

/** The first bytes of every client of HTTP/2 (RFC 9113, 3.4). */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** The first byte of every TLS handshake (RFC 8446, 5.1). No HTTP request starts with it. */
const handshake = 0x16;

/** As for the headers of a first request. */
const firstBytesMilliseconds = 20_000;

export interface FirstBytesListener {
  http1: () => void;
  http2: () => void;
  /** @default TLS is passed on to `http1`, which rejects it */
  tls?: (() => void) | undefined;
  /** The client has sent too little to tell. */
  timeout: () => void;
}

/** Calls a listener as soon as the first bytes show the client's protocol, and leaves these bytes in the socket. */
export function onFirstBytes(socket: Socket, clock: Clock, listener: FirstBytesListener): void {
  let received = Buffer.alloc(0);
  const done = (call: () => void): void => {
    cancel();
    socket.off("readable", read).off("close", stop).off("error", stop).off("end", end);
    if (received.length > 0) socket.unshift(received);
    call();
  };
  const read = (): void => {
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) return;
    received = Buffer.concat([received, bytes]);
    if (received[0] === handshake && listener.tls !== undefined) {
      done(listener.tls);
      return;
    }
    const compared = Math.min(received.length, http2Preface.length);
    if (!http2Preface.subarray(0, compared).equals(received.subarray(0, compared))) done(listener.http1);
    else if (compared === http2Preface.length) done(listener.http2);
  };
  const stop = (): void => {
    cancel();
    socket.destroy();
  };
  // The parser of HTTP/1.1 answers an incomplete request.
  const end = (): void => {
    if (received.length > 0) done(listener.http1);
    else stop();
  };
  const cancel = clock.schedule(firstBytesMilliseconds, () => {
    done(listener.timeout);
  });
  socket.on("readable", read).once("close", stop).once("error", stop).once("end", end);
}
