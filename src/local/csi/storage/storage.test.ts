import { expect, it } from "vitest";
import { Operations } from "./storage.ts";

const never = new Promise<never>(() => undefined);

it("lets many operations read the same, and none change it meanwhile", async () => {
  const operations = new Operations();
  void operations.run({ changes: "a", reads: "source" }, () => never);
  const second = Promise.withResolvers<undefined>();
  const reading = operations.run({ changes: "b", reads: "source" }, () => second.promise);
  const change = (changes: string, reads?: string) => operations.run({ changes, reads }, () => Promise.resolve("done"));
  await expect(change("source")).rejects.toMatchObject({ code: "Conflict", retryable: true });
  await expect(change("a")).rejects.toMatchObject({ code: "Conflict" });
  await expect(change("c", "b")).rejects.toMatchObject({ code: "Conflict" });
  expect(await change("c", "source")).toBe("done");
  second.resolve(undefined);
  await reading;
  expect(await change("b")).toBe("done");
  await expect(change("source")).rejects.toMatchObject({ code: "Conflict" });
});

it("frees what a failed operation used", async () => {
  const operations = new Operations();
  await expect(operations.run({ changes: "a", reads: "b" }, () => Promise.reject(new Error("full")))).rejects.toThrow(
    "full",
  );
  expect(await operations.run({ changes: "b" }, () => Promise.resolve(1))).toBe(1);
});
