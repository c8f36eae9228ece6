import { stripVTControlCharacters } from "node:util";
import type { DiagnosticEvent, EngineEvent, StepEventMetadata } from "@pulumi/pulumi/automation/index.js";
import type { Operation, Step } from "./deployment.ts";
import type { Values } from "./values.ts";

/** Records the events of Pulumi's engine during one run in the same form as the stand-in. */
export class EventRecord {
  readonly steps: Step[] = [];
  readonly lines: string[] = [];
  /** The outputs of the stack. The engine does not report secret outputs. */
  outputs: Values = {};
  /** Whether the engine reported an error of a resource or of the run. */
  hasError = false;
  readonly #isRefresh: boolean;
  readonly #onLine: (line: string) => void;

  constructor({ isRefresh, onLine }: { isRefresh: boolean; onLine: (line: string) => void }) {
    this.#isRefresh = isRefresh;
    this.#onLine = onLine;
  }

  take({ resourcePreEvent, resOutputsEvent, diagnosticEvent, policyEvent }: EngineEvent): void {
    if (resourcePreEvent !== undefined && !this.#isRefresh) this.#step(resourcePreEvent.metadata);
    // The result of a refresh is known only after the step.
    if (resOutputsEvent !== undefined && this.#isRefresh) this.#step(resOutputsEvent.metadata);
    const { type, new: made } = resOutputsEvent?.metadata ?? {};
    // `new` is null for deleted resources.
    if (type === "pulumi:pulumi:Stack") this.outputs = made?.outputs ?? {};
    if (diagnosticEvent !== undefined) this.#diagnostic(diagnosticEvent);
    if (policyEvent !== undefined) {
      const { enforcementLevel, resourceUrn, policyName, message } = policyEvent;
      const severity = enforcementLevel === "mandatory" ? "error" : "warning";
      this.hasError ||= severity === "error";
      this.#record(`${severity}: ${nameOf(resourceUrn)}: [${policyName}] ${plain(message)}`);
    }
  }

  #step({ op, urn, type, old, new: made, diffs }: StepEventMetadata): void {
    const operation = operations[op];
    // Default providers are added by `pulumi`, not by the program.
    if (operation === undefined || type.startsWith("pulumi:providers:")) return;
    const changes = (diffs ?? []).map((property) => ({
      property,
      before: old?.inputs[property] as unknown,
      after: made?.inputs[property] as unknown,
    }));
    this.steps.push({ operation, urn, type, name: nameOf(urn), inputs: (made ?? old)?.inputs ?? {}, changes });
  }

  #diagnostic({ severity, urn, message, ephemeral }: DiagnosticEvent): void {
    const text = plain(message);
    // The SDK's type omits "debug". Ephemeral messages are only displayed for a while.
    if ((severity as string) === "debug" || ephemeral === true || text === "") return;
    if (urn === undefined && ofPlugins.test(text)) return;
    this.hasError ||= severity === "error";
    const name = nameOf(urn);
    // Messages without a resource come from the program and are recorded unchanged.
    this.#record(name === "" || severity.startsWith("info") ? text : `${severity}: ${name}: ${reason(text)}`);
  }

  #record(text: string): void {
    for (const line of text.split("\n")) {
      this.lines.push(line);
      this.#onLine(line);
    }
  }
}

/** Removes colors that a program or a plugin printed. Those of `pulumi` itself are turned off. */
function plain(message: string): string {
  return stripVTControlCharacters(message).trimEnd();
}

/** Messages about plugins on the PATH, which do not concern the program. */
const ofPlugins = /^(using \S+ from \$PATH|resource plugin \S+ is expected to have version)/;

/**
 * Formats a failed check as the property and the reason, followed by the displayed value on a separate line, so that tests can
 * check what is displayed.
 */
function reason(text: string): string {
  return text.replace(/^\S+ resource '.*?': property (\S+) value (.*?) has a problem: (.*)$/s, "$1: $3\nvalue: $2");
}

function nameOf(urn: string | undefined): string {
  return urn?.split("::").at(-1) ?? "";
}

/** Operations that are not listed are parts of other operations. */
const operations: Record<string, Operation | undefined> = {
  same: "same",
  create: "create",
  update: "update",
  replace: "replace",
  delete: "delete",
  "delete-replaced": "delete-replaced",
  "discard-replaced": "delete-replaced",
  discard: "retain",
};
