import type { EngineEvent, PolicyEvent } from "@pulumi/pulumi/automation/index.js";
import { expect, it } from "vitest";
import { EventRecord } from "./event-record.ts";

const type = "pulumi-nodejs:dynamic/ramet:NamedSnapshot";
const urn = `urn:pulumi:test::program::${type}::data`;
const stackUrn = "urn:pulumi:test::program::pulumi:pulumi:Stack::program-test";

type Event = Omit<EngineEvent, "sequence" | "timestamp">;

it("reports a failed check with its property and the provider's reason", () => {
  const message =
    `${type} resource 'data': property timeout value {soon} has a problem: ` +
    'no length of time: "soon" has a problem: it has no unit\n';
  expect(recorded(error({ urn, message }))).toEqual({
    lines: ['error: data: timeout: no length of time: "soon" has a problem: it has no unit', "value: {soon}"],
    hasError: true,
  });
});

it("keeps the displayed value of a failed check, even if it has several lines", () => {
  const value = "{&{{[{map[run:{echo 'a\nb'}]} {map[run:{[secret]}]}]}}}";
  const message = `${type} resource 'it's data': property recipe value ${value} has a problem: it contains a secret`;
  expect(recorded(error({ urn, message })).lines).toEqual([
    "error: data: recipe: it contains a secret",
    "value: {&{{[{map[run:{echo 'a",
    "b'}]} {map[run:{[secret]}]}]}}}",
  ]);
});

it("reports other errors of a resource unchanged after its name", () => {
  expect(recorded(error({ urn, message: "\u001b[31mtook too long\u001b[39m: property timeout" }))).toEqual({
    lines: ["error: data: took too long: property timeout"],
    hasError: true,
  });
});

it("records messages without a resource unchanged and recognizes errors", () => {
  expect(recorded(error({ message: "The snapshot stack cannot be declared\nInstall the driver\n" }))).toEqual({
    lines: ["The snapshot stack cannot be declared", "Install the driver"],
    hasError: true,
  });
  expect(recorded(error({ message: "update canceled\n" }))).toEqual({ lines: ["update canceled"], hasError: true });
});

it("does not count warnings and information as errors", () => {
  const standIn = recorded(
    diagnostic({ severity: "warning", urn, message: "slow" }),
    diagnostic({ severity: "warning", message: "old" }),
    diagnostic({ severity: "info", urn, message: "error: printed" }),
    diagnostic({ severity: "info#err", urn, message: "x" }),
  );
  expect(standIn).toEqual({ lines: ["warning: data: slow", "old", "error: printed", "x"], hasError: false });
});

it("ignores ephemeral messages, debug messages and messages about plugins", () => {
  const using = "using pulumi-resource-kubernetes from $PATH at /usr/local/bin/pulumi-resource-kubernetes\n";
  const older = "resource plugin kubernetes is expected to have version >=4.34.2, but has 4.32.0; the wrong version\n";
  const debug = { diagnosticEvent: { severity: "debug", message: "x", color: "never" } } as unknown as Event;
  const standIn = recorded(
    error({ urn, message: "ephemeral", ephemeral: true }),
    debug,
    ...[using, older].map((message) => diagnostic({ severity: "warning", message })),
    diagnostic({ severity: "info", urn, message: "\n" }),
  );
  expect(standIn).toEqual({ lines: [], hasError: false });
});

it("counts a violation as an error if the policy is mandatory", () => {
  const warning = { lines: ["warning: data: [pinned] Images are pinned.", "no tag"], hasError: false };
  expect(recorded(violation("warning"))).toEqual(warning);
  const mandatory = { lines: ["error: data: [pinned] Images are pinned.", "no tag"], hasError: true };
  expect(recorded(violation("mandatory"))).toEqual(mandatory);
});

it("returns the outputs of the stack, and none after the stack is deleted", () => {
  const record = recordOf(outputs({ version: 1 }));
  expect(record.outputs).toEqual({ version: 1 });
  record.take(numbered(outputs(undefined)));
  expect(record.outputs).toEqual({});
});

function recorded(...events: Event[]): { lines: string[]; hasError: boolean } {
  const { lines, hasError } = recordOf(...events);
  return { lines, hasError };
}

function recordOf(...events: Event[]): EventRecord {
  const record = new EventRecord({ isRefresh: false, onLine: () => undefined });
  for (const event of events) record.take(numbered(event));
  return record;
}

function numbered(event: Event): EngineEvent {
  return { ...event, sequence: 0, timestamp: 0 };
}

type Diagnostic = NonNullable<EngineEvent["diagnosticEvent"]>;

function diagnostic(of: Omit<Diagnostic, "color">): Event {
  return { diagnosticEvent: { ...of, color: "never" } };
}

function error(of: Omit<Diagnostic, "color" | "severity">): Event {
  return diagnostic({ ...of, severity: "error" });
}

function violation(enforcementLevel: PolicyEvent["enforcementLevel"]): Event {
  return {
    policyEvent: {
      enforcementLevel,
      resourceUrn: urn,
      message: "Images are pinned.\nno tag\n",
      color: "never",
      policyName: "pinned",
      policyPackName: "guardrails",
      policyPackVersion: "",
      policyPackVersionTag: "",
    },
  };
}

function outputs(made: Record<string, unknown> | undefined): Event {
  const state = { type: "pulumi:pulumi:Stack", urn: stackUrn, id: "", parent: "", inputs: {}, provider: "" };
  return {
    resOutputsEvent: {
      metadata: {
        op: "same",
        urn: stackUrn,
        type: state.type,
        provider: "",
        ...(made === undefined ? {} : { new: { ...state, outputs: made } }),
      },
    },
  };
}
