import type { Readable } from "node:stream";

export interface InputReceiver {
  /** Returns when there is room for more. */
  take(data: Buffer): Promise<void>;
  end(): Promise<void>;
}

/**
 * Passes what is read on, one part after the other, until the function that is returned is called. The reader is then
 * left as it is: it may be the process' own stdin.
 */
export function feedStdin(stdin: Readable, receiver: InputReceiver, onError: (error: unknown) => void): () => void {
  let stopped = false;
  let passing = Promise.resolve();
  // A paused stream may still give what it had begun to give, its end too: so each step waits for the one before.
  const pass = (step: () => Promise<void>): void => {
    stdin.pause();
    passing = passing.then(async () => {
      if (stopped) return;
      await step();
      if (!isStopped()) stdin.resume();
    });
    passing.catch((error: unknown) => {
      if (!stopped) onError(error);
    });
  };
  const isStopped = (): boolean => stopped;
  const onData = (data: Buffer | string): void => {
    pass(() => receiver.take(Buffer.from(data)));
  };
  const onEnd = (): void => {
    pass(() => receiver.end());
  };
  stdin.on("data", onData).on("end", onEnd);
  return () => {
    stopped = true;
    stdin.off("data", onData).off("end", onEnd).pause();
  };
}
