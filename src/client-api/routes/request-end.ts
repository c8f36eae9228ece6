import type { FastifyReply } from "fastify";

/**
 * Calls `run` once when a request is over: immediately if it is, otherwise after its answer or with its connection. Node does not
 * close the response of a pipelined request whose connection closes while it waits for the answers before it.
 */
export function whenOver({ raw, request }: FastifyReply, run: () => void): void {
  const { socket } = request.raw;
  if (raw.destroyed || socket.destroyed) {
    run();
    return;
  }
  const over = (): void => {
    raw.removeListener("close", over);
    socket.removeListener("close", over);
    run();
  };
  raw.once("close", over);
  socket.once("close", over);
}

/** Also aborts after the answer, when nothing waits any more. */
export function untilClosed(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  whenOver(reply, () => {
    closed.abort();
  });
  return closed.signal;
}
