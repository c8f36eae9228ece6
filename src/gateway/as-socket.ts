import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { RametError } from "../base/errors.ts";

/** The socket that Node hands out as a stream when a connection is upgraded. */
export function asSocket(stream: Duplex): Socket {
  if (stream instanceof Socket) return stream;
  throw new RametError("Internal", "An upgraded connection is no socket");
}
