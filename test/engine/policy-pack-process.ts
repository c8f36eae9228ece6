import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { credentials, type ServiceError } from "@grpc/grpc-js";
import analyzerGrpc from "@pulumi/pulumi/proto/analyzer_grpc_pb.js";
import analyzer from "@pulumi/pulumi/proto/analyzer_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { startPulumiProcess } from "./pulumi-process.ts";
import type { Values } from "./values.ts";

/** A resource before its creation, with inputs checked by the provider. */
export interface CheckedResource {
  urn: string;
  type: string;
  name: string;
  inputs: Values;
}

export interface Violation {
  policy: string;
  /** Whether the violation prevents the creation of the resource. */
  isMandatory: boolean;
  message: string;
}

/** The settings and enforcement of each policy. */
export type PolicyConfiguration = Readonly<Record<string, { mandatory: boolean; settings: Values }>>;

/** Runs Pulumi's own process for a policy pack and calls it. */
export class PolicyPackProcess {
  readonly #child: ChildProcess;
  readonly #client: InstanceType<typeof analyzerGrpc.AnalyzerClient>;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.#client = new analyzerGrpc.AnalyzerClient(`127.0.0.1:${port}`, credentials.createInsecure());
  }

  /** @param onLine called with each line that the process prints */
  static async start(directory: string, onLine: (line: string) => void): Promise<PolicyPackProcess> {
    const program = createRequire(import.meta.url).resolve("@pulumi/pulumi/cmd/run-policy-pack");
    const what = "the process of the policy pack";
    const { child, port } = await startPulumiProcess({
      what,
      program: [program, "127.0.0.1:0", "."],
      directory,
      onLine,
    });
    return new PolicyPackProcess(child, port);
  }

  /** Returns the pack's name, and the name and settings of each policy. */
  async describe(): Promise<{ name: string; policies: { name: string; settings: string[] }[] }> {
    const info = await answer<InstanceType<typeof analyzer.AnalyzerInfo>>((done) =>
      this.#client.getAnalyzerInfo(new empty.Empty(), done),
    );
    const policies = info.getPoliciesList().map((policy) => ({
      name: policy.getName(),
      settings: Object.keys(policy.getConfigschema()?.getProperties()?.toJavaScript() ?? {}).sort(),
    }));
    return { name: info.getName(), policies };
  }

  async configure(configuration: PolicyConfiguration): Promise<void> {
    const request = new analyzer.ConfigureAnalyzerRequest();
    for (const [policy, { mandatory, settings }] of Object.entries(configuration)) {
      const config = new analyzer.PolicyConfig();
      const { MANDATORY, ADVISORY } = analyzer.EnforcementLevel;
      config.setEnforcementlevel(mandatory ? MANDATORY : ADVISORY);
      config.setProperties(toStruct(settings));
      request.getPolicyconfigMap().set(policy, config);
    }
    await answer((done) => this.#client.configure(request, done));
  }

  async analyze({ urn, type, name, inputs }: CheckedResource): Promise<Violation[]> {
    const request = new analyzer.AnalyzeRequest();
    request.setUrn(urn);
    request.setType(type);
    request.setName(name);
    request.setProperties(toStruct(inputs));
    request.setOptions(new analyzer.AnalyzerResourceOptions());
    const response = await answer<InstanceType<typeof analyzer.AnalyzeResponse>>((done) =>
      this.#client.analyze(request, done),
    );
    return response.getDiagnosticsList().map((one) => ({
      policy: one.getPolicyname(),
      isMandatory: one.getEnforcementlevel() === analyzer.EnforcementLevel.MANDATORY,
      message: one.getMessage(),
    }));
  }

  async stop(): Promise<void> {
    this.#client.close();
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGTERM");
    await once(this.#child, "exit");
  }
}

function answer<T>(call: (done: (error: ServiceError | null, response: T) => void) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, response) => {
      if (error === null) resolve(response);
      else reject(new Error(error.details));
    });
  });
}

function toStruct(values: Values): InstanceType<typeof struct.Struct> {
  return struct.Struct.fromJavaScript(values as Parameters<typeof struct.Struct.fromJavaScript>[0]);
}
