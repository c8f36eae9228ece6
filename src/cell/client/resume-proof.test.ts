import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { guestAccessToken, trafficAccessToken } from "./cell-token.ts";
import { isResumeProof, resumeProof } from "./resume-proof.ts";

const secret = Buffer.from("secret of the guests");

it("is valid for its sandbox, its secret and two minutes", () => {
  const clock = new ManualClock();
  const proof = resumeProof(secret, "u", clock);
  expect(isResumeProof(proof, secret, "u", clock)).toBe(true);
  expect(isResumeProof(proof, secret, "other", clock)).toBe(false);
  expect(isResumeProof(proof, Buffer.from("other"), "u", clock)).toBe(false);
  const [seconds, mac = ""] = proof.split(".");
  expect(isResumeProof(`${Number(seconds) + 1}.${mac}`, secret, "u", clock)).toBe(false);
  clock.advance(120_000);
  expect(isResumeProof(proof, secret, "u", clock)).toBe(true);
  clock.advance(1_000);
  expect(isResumeProof(proof, secret, "u", clock)).toBe(false);
});

it("is none of the tokens that clients get", () => {
  const clock = new ManualClock();
  const seconds = Math.floor(clock.now().getTime() / 1000);
  for (const token of [guestAccessToken(secret, "u"), trafficAccessToken(secret, "u"), "", "x".repeat(10_000)])
    for (const given of [token, `${seconds}.${token}`]) expect(isResumeProof(given, secret, "u", clock)).toBe(false);
});
