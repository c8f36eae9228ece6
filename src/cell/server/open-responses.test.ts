import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { OpenResponses } from "./open-responses.ts";

it("waits for each response that has begun, also for one whose client leaves", async () => {
  const responses = new OpenResponses();
  const server = createServer().listen(0, "127.0.0.1");
  responses.follow(server);
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = async (signal?: AbortSignal) => {
    const asked = once(server, "request") as Promise<[unknown, ServerResponse]>;
    const answer = fetch(url, { signal: signal ?? null }).then(
      (response) => response.text(),
      () => "left",
    );
    const [, response] = await asked;
    return { answer, response };
  };
  await responses.finished();
  const client = new AbortController();
  const [first, second] = [await ask(), await ask(client.signal)];
  let isFinished = false;
  const finished = responses.finished().then(() => {
    isFinished = true;
  });
  first.response.end("sent");
  expect(await first.answer).toBe("sent");
  expect(isFinished).toBe(false);
  client.abort();
  expect(await second.answer).toBe("left");
  await finished;
  server.close();
  server.closeAllConnections();
});
