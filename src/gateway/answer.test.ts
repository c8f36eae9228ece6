import { errors } from "undici";
import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError } from "../base/errors.ts";
import { InvalidResponses } from "./answer.ts";
import type { Route } from "./upstreams.ts";

function world() {
  const clock = new ManualClock();
  const responses = new InvalidResponses(clock);
  let sent = 0;
  const ask = async (outcome: number | string, port = 80): Promise<string> => {
    const route = { sandbox: { metadata: { uid: "u" } }, title: "sandbox a in ns", port } as Route;
    const send = (): Promise<number> => {
      sent++;
      if (typeof outcome === "number") return Promise.resolve(outcome);
      const isParsers = outcome === "HTTPParserError";
      const cause = isParsers ? new errors.HTTPParserError(outcome) : Object.assign(new Error(), { code: outcome });
      return Promise.reject(new RametError("SandboxUnreachable", outcome, { cause, retryable: true }));
    };
    try {
      return String(await responses.watch(route, send));
    } catch (error) {
      return RametError.from(error).message;
    }
  };
  const askTimes = async (times: number, outcome: number | string): Promise<void> => {
    for (let turn = 0; turn < times; turn++) await ask(outcome);
  };
  return { clock, ask, askTimes, sent: () => sent };
}

const paused = "Port 80 of the sandbox a in ns sends invalid HTTP";

it("pauses a port after five invalid responses in a row, and no other port", async () => {
  const { ask, askTimes, sent } = world();
  await askTimes(5, "HTTPParserError");
  expect(await ask(200)).toBe(paused);
  expect(sent()).toBe(5);
  expect(await ask(200, 81)).toBe("200");
});

it("asks once after the pause, and continues the pause until a response is valid", async () => {
  const { clock, ask, askTimes } = world();
  await askTimes(5, "ERR_INVALID_CHAR");
  clock.advance(1_000);
  expect(await ask("HPE_INVALID_STATUS")).toBe("HPE_INVALID_STATUS");
  expect(await ask(200)).toBe(paused);
  clock.advance(1_000);
  expect(await ask(200)).toBe("200");
  await askTimes(4, "HPE_INVALID_STATUS");
  expect(await ask(200)).toBe("200");
});

it("does not count connections that break, and clients that leave", async () => {
  const { ask, askTimes } = world();
  await askTimes(5, "ECONNRESET");
  await askTimes(5, "UND_ERR_SOCKET");
  await askTimes(5, "UND_ERR_ABORTED");
  expect(await ask(200)).toBe("200");
});
