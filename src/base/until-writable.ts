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
