import { connect } from "node:net";
import type { Writable } from "node:stream";

/** Resolves when a stream accepts more, or when it is closed. */
export function untilWritable(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    if (stream.closed || !stream.writableNeedDrain) done();
    else stream.on("drain", done).on("close", done);
  });
}

/** Whether a Unix socket accepts connections. */
export function socketAccepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}
