import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { feedStdin } from "./run-command.ts";

describe("feedStdin", () => {
  it("passes all parts in order, one at a time, and then the end", async () => {
    const stdin = new PassThrough();
    const taken: string[] = [];
    let taking = 0;
    const ended = new Promise<void>((resolve, reject) => {
      feedStdin(
        stdin,
        {
          take: async (data) => {
            expect(++taking).toBe(1);
            await new Promise(setImmediate);
            taken.push(data.toString());
            taking--;
          },
          end: () => {
            resolve();
            return Promise.resolve();
          },
        },
        reject,
      );
    });
    for (const part of ["one ", "two ", "three"]) stdin.write(part);
    stdin.end();
    await ended;
    expect(taken.join("")).toBe("one two three");
  });

  it("passes nothing and reports no error after it was stopped", async () => {
    const stdin = new PassThrough();
    const errors: unknown[] = [];
    const refusal = Promise.withResolvers<never>();
    const started = Promise.withResolvers<undefined>();
    const stop = feedStdin(
      stdin,
      {
        take: () => {
          started.resolve(undefined);
          return refusal.promise;
        },
        end: () => Promise.resolve(),
      },
      (error) => errors.push(error),
    );
    stdin.write("x");
    await started.promise;
    stop();
    refusal.reject(new Error("the command has ended"));
    await new Promise(setImmediate);
    expect(errors).toEqual([]);
    expect(stdin.isPaused()).toBe(true);
  });
});
