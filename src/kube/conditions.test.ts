import { describe, expect, it } from "vitest";
import { describeState, failureOf, findCondition, isConditionTrue, setCondition } from "./conditions.ts";

const desired = { type: "Ready", status: "True", reason: "PodReady", message: "It answers." } as const;
const first = new Date("2026-01-02T03:04:05.678Z");
const later = new Date("2026-01-02T04:00:00.000Z");

describe("setCondition", () => {
  it("adds a condition with its transition time", () => {
    const conditions = setCondition([], desired, first);
    expect(conditions).toEqual([{ ...desired, lastTransitionTime: "2026-01-02T03:04:05Z" }]);
    expect(isConditionTrue(conditions, "Ready")).toBe(true);
    expect(isConditionTrue(conditions, "Other")).toBe(false);
  });

  it("returns the same array if nothing differs", () => {
    const conditions = setCondition([], desired, first);
    expect(setCondition(conditions, desired, later)).toBe(conditions);
  });

  it("keeps a message that the API server accepts, and the same one for the same text", () => {
    const message = "\ud800".repeat(40_000);
    const conditions = setCondition([], { ...desired, message }, first);
    expect(conditions[0]?.message).toBe("\ufffd".repeat(32_768));
    expect(setCondition(conditions, { ...desired, message }, later)).toBe(conditions);
  });

  it("keeps the transition time while the status is the same", () => {
    const conditions = setCondition([], desired, first);
    const changed = setCondition(conditions, { ...desired, message: "It still answers." }, later);
    expect(findCondition(changed, "Ready")).toMatchObject({
      message: "It still answers.",
      lastTransitionTime: "2026-01-02T03:04:05Z",
    });
    const flipped = setCondition(changed, { ...desired, status: "False", reason: "PodGone" }, later);
    expect(findCondition(flipped, "Ready")?.lastTransitionTime).toBe("2026-01-02T04:00:00Z");
  });

  it("keeps the order of the other conditions", () => {
    const other = { ...desired, type: "Other", lastTransitionTime: "2026-01-01T00:00:00Z" };
    const conditions = setCondition(
      [...setCondition([], desired, first), other],
      { ...desired, status: "False" },
      later,
    );
    expect(conditions.map(({ type }) => type)).toEqual(["Ready", "Other"]);
    expect(conditions[1]).toBe(other);
  });
});

const condition = (type: string, status: "True" | "False", reason: string, message: string) => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: "2030-01-01T00:00:00Z",
});

describe("describeState", () => {
  it("describes why a sandbox is not ready", () => {
    const conditions = [condition("Ready", "False", "PodCreateFailed", "the template x does not exist")];
    expect(describeState({ status: { phase: "Pending", conditions } })).toBe("Pending: the template x does not exist");
  });

  it("ignores conditions that are false on a running sandbox", () => {
    const conditions = [
      condition("Ready", "True", "PodReady", ""),
      condition("SandboxPaused", "False", "x", "not paused"),
    ];
    expect(describeState({ status: { phase: "Running", conditions } })).toBe("Running");
    expect(describeState({})).toBe("waiting for the controller");
    expect(describeState(undefined)).toBe("deleted");
  });
});

describe("failureOf", () => {
  it("takes the code from the condition's reason", () => {
    const conditions = [condition("Ready", "False", "TemplateMismatch", "args[0] differs")];
    expect(failureOf("The sandbox a failed", { status: { phase: "Failed", conditions } }, "Internal")).toMatchObject({
      code: "TemplateMismatch",
      message: "The sandbox a failed: args[0] differs",
    });
  });

  it("takes the code from the problem", () => {
    const problems = { Ready: { code: "StoreFull", cause: "the disk is full", hint: "Make room" } };
    const status = { phase: "Failed", message: "the disk is full. Make room [StoreFull]", ramet: { problems } };
    expect(failureOf("The checkpoint a failed", { status }, "Internal")).toMatchObject({
      code: "StoreFull",
      message: "The checkpoint a failed: the disk is full. Make room",
    });
  });

  it("passes the message of an earlier controller on, with the fallback code", () => {
    const status = { phase: "Failed", message: "exit status [1]" };
    expect(failureOf("It failed", { status }, "SandboxNotReady")).toMatchObject({
      code: "SandboxNotReady",
      message: "It failed: exit status [1]",
    });
  });
});
