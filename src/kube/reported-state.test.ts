import { describeState, failureOf } from "./reported-state.ts";
import { describe, expect, it } from "vitest";

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
